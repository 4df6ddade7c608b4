"""A run whose plan is edited while it lives: stopped, one source banned, one added, two ranks.

    python examples/edited_run.py        # a minute or two on a CPU; writes edited_run/

Python's standard library is the text: its code, the tables of its text encodings, and the topics
of its help. The run begins with the code, and the tables become a second source. Then the tables
are banned (their weight becomes 0), the topics are added, and the run is resumed on two ranks. Its
page, edited_run/runs/demo/run.html, shows what was trained on when.
"""

import json
import pydoc_data.topics
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import tokenmill

HERE = Path("edited_run")
RUN = HERE / "runs" / "demo"
ROOT = Path(__file__).parents[1]
SETTINGS = [
    *("--dataset_dir", str(HERE / "code"), "--out_dir", str(HERE / "runs"), "--model_name", "demo"),
    *("--config_file", str(ROOT / "configs" / "toy_cpu.json"), "--device", "cpu"),
    *("--decay_iters", "160", "--checkpoint_interval", "10", "--keep_checkpoints", "20"),
]


def main() -> None:
    """All of it, as one would type it."""
    shutil.rmtree(HERE, ignore_errors=True)
    prepare_sources()
    train("--max_iters", "40")
    edits("--add", f"tables={HERE / 'tables'}", "--weights", "data=0.5,tables=0.5", "--note", "Ada")
    train("--max_iters", "90", "--resume")
    edits("--add", f"topics={HERE / 'topics'}", "--weights", "data=0.6,tables=0,topics=0.4",
          "--note", "the tables teach nothing; Bo")  # fmt: skip
    edits("--skip", "120-124", "--note", "loss spike; Ada")
    train("--max_iters", "160", "--resume", ranks=2)
    tokenmill_("edits", str(RUN))
    tokenmill_("when", str(HERE / "tables"), "--run", str(RUN), "--document", "0")
    print(f"\nwhat was trained on when: {RUN}/run.html")


def prepare_sources() -> None:
    """Three datasets of the same tokenizer."""
    library = Path(sysconfig.get_path("stdlib"))
    topics = HERE / "topics.jsonl"
    HERE.mkdir()
    rows = (json.dumps({"text": text}) for text in pydoc_data.topics.topics.values())
    topics.write_text("\n".join(rows))
    for name, files in (
        ("code", sorted(library.glob("*.py"))),
        ("tables", sorted((library / "encodings").glob("*.py"))),
        ("topics", [topics]),
    ):
        tokenmill.prepare(files, HERE / name, tokenizer="bytes", tokens_per_shard=200_000)


def train(*words: str, ranks: int = 1) -> None:
    """`tokenmill train`, on so many ranks."""
    program = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", str(ROOT / "train.py")]
    run(*(program if ranks > 1 else ["-m", "tokenmill", "train"]), *SETTINGS, *words)


def edits(*words: str) -> None:
    """Ask the run for an edit."""
    tokenmill_("edits", str(RUN), *words)


def tokenmill_(*words: str) -> None:
    """Any command."""
    run("-m", "tokenmill", *words)


def run(*words: str) -> None:
    """A command of this Python, shown and run."""
    print(f"\n$ python {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, *words], check=True)


if __name__ == "__main__":
    main()
