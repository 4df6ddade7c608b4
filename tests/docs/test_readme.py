"""Promise: what the README shows runs as it stands there, and what it links to exists."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the README takes for granted: a corpus of JSON lines, and our configs."""
    place = tmp_path_factory.mktemp("reader")
    (place / "corpus").mkdir()
    (place / "configs").symlink_to(ROOT / "configs")
    modules = sorted(Path(os.__file__).parent.glob("*.py"))[:60]
    for number in range(2):
        lines = [orjson.dumps({"text": path.read_text()}) for path in modules[number::2]]
        (place / "corpus" / f"{number}.jsonl").write_bytes(b"\n".join(lines))
    return place


def test_python_code_runs(folder):
    (code,) = blocks("python")

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert (folder / "data" / "corpus" / "dataset_metadata.json").exists()


def test_commands_run(folder):
    commands = [
        line[2:] for block in blocks("console") for line in block.splitlines() if line[0] == "$"
    ]

    assert len(commands) >= 3
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "tokenmill"
        line = " ".join([sys.executable, "-m", "tokenmill", *arguments])
        done = subprocess.run(
            line, shell=True, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
