"""Install a wheel into an empty environment, far from this clone, and run the README with it.

    python tests/distribution/try_wheel.py dist/tokenmill-*.whl           # without torch: seconds
    python tests/distribution/try_wheel.py dist/tokenmill-*.whl --torch   # all of it: minutes

The files that the README takes for granted are made with the tokenmill that was installed. Blocks
run in order, as in tests/docs; those that need torch are left out where it is not installed.
"""

import argparse
import json
import os
import pydoc_data.topics
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path.insert(0, str(TESTS))

from docs_blocks import Block, blocks_of  # noqa: E402

NEEDS_TORCH = re.compile(r"\btorch\b|tokenmill (train|sample)\b")
WRITE_TOKENS = """
import numpy as np
from tokenmill.tokens.load_tokenizer import load
ids, _ = load("gpt2").encode_batch([open("book.txt", "rb").read()])
ids.astype("<u2").tofile("train.bin")
"""


class Environment:
    """An environment of its own, with the wheel and what it depends on; a folder to work in."""

    def __init__(self, folder: Path, wheel: Path, *, with_torch: bool) -> None:
        self.has_torch = with_torch
        self.bin = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        self.cwd = folder / "reader"
        self.cwd.mkdir()
        create = [sys.executable, "-m", "venv", "--without-pip", str(folder / "env")]
        subprocess.run(create, check=True)
        # As in the Makefile: pip finds a CPU build of torch, uv takes seconds for all else.
        tool = ["-m", "pip"] if with_torch else ["-m", "uv", "pip"]
        into = ["--python", str(self.bin / "python")]
        words = [*tool, *into, "install"] if with_torch else [*tool, "install", *into]
        needed = ["-c", str(ROOT / "constraints.txt"), f"{wheel}[torch]" if with_torch else wheel]
        subprocess.run([sys.executable, *words, "--quiet", *needed], check=True)

    def python(self, *words: str) -> str:
        return self.run([str(self.bin / "python"), *words])

    def run(self, command: list[str]) -> str:
        """Return what a command prints; nothing of this clone is in its environment."""
        here = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
        path = f"{self.bin}{os.pathsep}{here.get('PATH', '')}"
        done = subprocess.run(
            command, cwd=self.cwd, env={**here, "PATH": path}, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def write_files(self) -> None:
        """Write a book, token ids of another project, and two files of JSON lines."""
        topics = list(pydoc_data.topics.topics.values())
        (self.cwd / "book.txt").write_text("\n".join(topics[:9]), encoding="utf-8")
        (self.cwd / "corpus").mkdir()
        for number in range(2):
            rows = [json.dumps({"text": topic}) for topic in topics[number::2]]
            path = self.cwd / "corpus" / f"{number}.jsonl"
            path.write_text("\n".join(rows), encoding="utf-8")
        self.python("-c", WRITE_TOKENS)

    def run_block(self, block: Block) -> bool:
        """Run a block of Python or of the console; return False if it needs what is not here."""
        if block.not_run or (NEEDS_TORCH.search(block.code) and not self.has_torch):
            return False
        if block.language == "python":
            self.python("-c", f"{block.first}\n{block.code}")
        for command, _ in block.commands if block.language == "console" else ():
            if command.startswith("tokenmill "):  # not `pip install`, which was done
                self.run(["bash", "-c", command] if "*" in command else shlex.split(command))
        return True


def try_wheel(wheel: Path, folder: Path, *, with_torch: bool) -> int:
    """Return how many blocks of the README ran; one that fails is an error."""
    environment = Environment(folder, wheel, with_torch=with_torch)
    where = environment.python("-c", "import tokenmill; print(tokenmill.__file__)")
    assert Path(where.strip()).is_relative_to(folder), where
    environment.write_files()
    return sum(map(environment.run_block, blocks_of("README.md")))


def main() -> None:
    """Try the wheel that is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--torch", action="store_true", help="install torch as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ran = try_wheel(options.wheel.resolve(), Path(folder), with_torch=options.torch)
    print(f"{ran} of {len(blocks_of('README.md'))} blocks of the README ran with {options.wheel}")


if __name__ == "__main__":
    main()
