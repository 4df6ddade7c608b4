"""The commands that are disturbed: what they start from, and what they must come to.

Each works in a folder of its own. `before` and `after` are all files of that folder in a run that
nobody disturbed; however a run is disturbed, the same command again must give the files of `after`
and no other. What it shows meanwhile is what was there before, all of what it makes, or nothing.
"""

import fnmatch
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from faults.forks import Ended, Forks
from hub.conftest import REPO, llmc_shard
from hub.fake_hub import fake_hub
from small_corpus import files_of, write_corpus
from train_runs import TINY, flags, text

import tokenmill
from tokenmill.shards.manifest import FILE_NAME as MANIFEST

Files = dict[str, bytes]
SMALL = ["--tokenizer", "bytes", "--tokens_per_shard", "2000", "--workers", "1", "--quiet"]


def _corpus(folder: Path) -> None:
    write_corpus(folder / "corpus", documents=30)


def _three_documents(folder: Path) -> None:
    rows = [json.dumps({"text": f"document {n}\nof three lines\n and no more"}) for n in range(3)]
    (folder / "a.jsonl").write_text("\n".join(rows))


def _dataset(folder: Path) -> None:
    _corpus(folder)
    tokenmill.prepare(
        folder / "corpus", folder / "out", tokenizer="bytes", tokens_per_shard=2000, workers=1
    )


def _small_dataset(folder: Path) -> None:
    _three_documents(folder)
    tokenmill.prepare(
        folder / "a.jsonl", folder / "out", tokenizer="bytes", val_fraction=0, workers=1
    )


def _dataset_and_more(folder: Path) -> None:
    _dataset(folder)
    write_corpus(folder / "more", seed=2, documents=20)


def _one_text(folder: Path) -> None:
    (folder / "a.txt").write_text("".join(f"line {n} of the text\n" for n in range(400)))


def _training_text(folder: Path) -> None:
    (folder / "a.txt").write_text(text(60))


def _nothing(folder: Path) -> None:
    pass


SHARDS = {f"x_train_{n:06d}.bin": llmc_shard(n, 3000) for n in range(3)}
TRAIN = {
    **TINY, "input_file": "a.txt", "out_dir": ".", "model_name": "run", "max_iters": 6,
    "eval_interval": 3, "checkpoint_interval": 2, "n_embd": 8, "block_size": 8,
    "global_batch_size": 2, "eval_batches": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """A command, in words of its flags."""

    name: str
    arguments: list[str]
    set_up: Callable[[Path], None]
    made: str
    """The file or folder that it makes or changes."""
    varies: list[str] = field(default_factory=list)
    """Names of files whose bytes hold times, or an address; only their names are compared."""
    refuses_with: tuple[int, ...] = ()
    """Exit codes of the same command again, when all is done."""
    appears: str = "at once"
    """How a reader sees what is made: `at once`, `file by file`, or `step by step`."""


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("prepare", ["prepare", "corpus", "-o", "out", *SMALL], _corpus, "out"),
        Operation(
            "small prepare", ["prepare", "a.jsonl", "-o", "out", *SMALL], _three_documents, "out"
        ),
        Operation(
            "append",
            ["prepare", "more", "-o", "out", "--append", *SMALL[-3:]],
            _dataset_and_more,
            "out",
            refuses_with=(13,),
        ),
        Operation(
            "overwrite",
            ["prepare", "more", "-o", "out", "--overwrite", *SMALL],
            _dataset_and_more,
            "out",
        ),
        Operation(
            "convert",
            ["convert", "out", "new", "--to", "megatron"],
            _dataset,
            "new",
            refuses_with=(12,),
        ),
        Operation(
            "small convert",
            ["convert", "out", "new", "--to", "npy"],
            _small_dataset,
            "new",
            refuses_with=(12,),
        ),
        Operation(
            "pretokenize",
            ["pretokenize", "a.txt", "--tokenizer", "bytes", "--quiet"],
            _one_text,
            "a.npy",
        ),
        Operation(
            "download",
            ["download", REPO, "-o", "new", "--shards", "3", "--workers", "1", "--quiet"],
            _nothing,
            "new",
            varies=["new/.tokenmill/*"],
            appears="file by file",
        ),
        Operation(
            "train",
            ["train", *flags(TRAIN), "--resume"],
            _training_text,
            "run",
            varies=["run/metrics.jsonl"],
            appears="step by step",
        ),
    )
}


class Case:
    """An operation with the files before it and after it."""

    def __init__(self, operation: Operation, scratch: Path, forks: Forks) -> None:
        self.operation, self._forks = operation, forks
        self._template = scratch / f"{operation.name}-template"
        self._template.mkdir()
        operation.set_up(self._template)
        self.folder = scratch / operation.name
        self.before: Files = files_of(self._template)
        self.fresh()
        ended = self.run()
        assert ended.code == 0, ended.said
        self.after: Files = files_of(self.folder)

    def run(self, strace: Sequence[str] = ()) -> Ended:
        """The command, in the folder as it is now."""
        return self._forks.run(self.operation.arguments, self.folder, strace)

    def calls(self) -> Counter[str]:
        """How often each system call is made, in an undisturbed run."""
        log = self.folder.with_suffix(".strace")
        self.fresh()
        self.run(["-o", str(log)])
        found = re.findall(r"^\d+ +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE)
        return Counter(found)

    def fresh(self) -> Path:
        """The folder as it is before the command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._template, self.folder)
        return self.folder

    def differences(self) -> list[str]:
        """What is not as after an undisturbed run."""
        found = files_of(self.folder)
        extra = found.keys() - self.after.keys()
        wrong = [f"{name} is left over" for name in extra if not self._stays_a_day(name)]
        wrong += [f"{name} is missing" for name in self.after.keys() - found.keys()]
        for name in found.keys() & self.after.keys():
            if not self._varies(name) and found[name] != self.after[name]:
                wrong.append(f"{name} has other bytes")
        if self.operation.name == "train" and not wrong:
            name = "run/metrics.jsonl"
            if _losses(found[name]) != _losses(self.after[name]):
                wrong.append("the losses are others")
        return wrong

    def wrongly_visible(self) -> list[str]:
        """What a reader must not see, in a folder whose command did not come to its end."""
        made = self.operation.made
        found = {
            name: data for name, data in files_of(self.folder).items() if _is_published(name, made)
        }
        if self.operation.appears == "step by step":
            return []
        if self.operation.appears == "file by file":
            return [
                f"{name} is visible with other bytes"
                for name, data in found.items()
                if name in self.after and not self._varies(name) and data != self.after[name]
            ]
        if f"{made}/{MANIFEST}" in found or made != "out":
            for expected in (self.before, self.after):
                wanted = {n: d for n, d in expected.items() if _is_published(n, made)}
                named = {n: d for n, d in found.items() if n in wanted}
                if named == wanted and (made == "out" or found == wanted):
                    return []
            return [f"{made} is visible, and is neither what it was nor what it should be"]
        return []

    def _stays_a_day(self, name: str) -> bool:
        """Several processes may download into one folder: who left what is known by its age."""
        return self.operation.name == "download" and name.endswith(".tmp")

    def _varies(self, name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.operation.varies)


def _is_published(name: str, made: str) -> bool:
    """Whether it is data for a reader; the card of a dataset is not, nor is what is hidden."""
    inside = name == made or name.startswith(f"{made}/")
    hidden = any(part.startswith(".") for part in name.split("/"))
    return inside and not hidden and not name.endswith("README.md")


def _losses(metrics: bytes) -> list[dict]:
    rows = [json.loads(line) for line in metrics.splitlines()]
    return [{k: row.get(k) for k in ("step", "loss", "val_loss", "sample")} for row in rows]


@contextmanager
def serving_shards() -> Iterator[dict[str, str]]:
    """A hub with three shards, and the environment in which a download finds it."""
    with fake_hub() as hub:
        hub.commit(REPO, SHARDS)
        yield {
            "HF_ENDPOINT": hub.endpoint, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_None",
            "HF_HOME": "/nonexistent",
        }  # fmt: skip
