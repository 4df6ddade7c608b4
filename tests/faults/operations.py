"""The commands that are disturbed: what they start from, and what they make.

Each works in a folder of its own. A program of ours that is no command, such as a loader that
builds an index, is a function in PROGRAMS and is run in the same way. What a disturbed operation
must come to is said in case.py.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import column_data
from hub.conftest import REPO, llmc_shard
from hub.fake_hub import fake_hub
from small_corpus import write_corpus
from train_runs import TINY, flags, text

import tokenmill

SMALL = ["--tokenizer", "bytes", "--tokens_per_shard", "2000", "--workers", "1", "--quiet"]
ZSTD = ["--compress", "zstd:1"]


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


def _chats(folder: Path) -> None:
    documents = column_data.make_documents(count=12)
    column_data.write(folder / "out", documents, names=("ids", "loss", "weights"))


def write_chats() -> None:
    """A dataset with columns, from documents of ids; one that is there already is left alone."""
    shutil.rmtree("out-whole", ignore_errors=True)  # `column_data` converts it, and removes it
    if not Path("out").exists():
        _chats(Path())


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
EDITED = {
    **{name: value for name, value in TRAIN.items() if name not in ("input_file", "tokenizer")},
    "dataset_dir": "out", "eval_interval": 0,
}  # fmt: skip
EDITS = [
    {"kind": "ban", "documents": [[0, 0]], "note": "a request", "asked": "2026-01-01T00:00:00Z"},
    {"kind": "skip", "steps": [5, 6]},
]


def _run(folder: Path, edits: list[dict]) -> None:
    """A run of four steps, and edits that wait for the others."""
    from tokenmill.train import train

    _small_dataset(folder)
    before = os.getcwd()
    os.chdir(folder)
    try:
        train({**EDITED, "max_iters": 4, "decay_iters": 6}, quiet=True)
    finally:
        os.chdir(before)
    lines = "".join(json.dumps(edit) + "\n" for edit in edits)
    (folder / "run" / "edits.jsonl").write_text(lines)


def _run_with_an_edit(folder: Path) -> None:
    _run(folder, EDITS[:1])


def _run_with_edits(folder: Path) -> None:
    _run(folder, EDITS)


def serve_documents() -> None:
    """Packed rows of a dataset, by an index of its documents in a cache: always the same ones."""
    from tokenmill.reading import length_index

    os.environ["XDG_CACHE_HOME"] = os.path.abspath("cache")
    length_index.IN_MEMORY = 0  # this dataset is small; indices of large ones are files
    data = tokenmill.open("out", "all")
    loader = tokenmill.BatchLoader(data, batch_size=2, block_size=64, rows="packed")
    tokens = b"".join(next(loader).tokens.tobytes() for _ in range(5))
    loader.close()
    expected = Path("batches")
    if not expected.exists():  # nothing disturbs the first run
        expected.write_bytes(tokens)
    assert tokens == expected.read_bytes(), "other batches were served"


def _dataset_and_batches(folder: Path) -> None:
    _small_dataset(folder)
    before = os.getcwd()
    os.chdir(folder)
    serve_documents()
    os.chdir(before)
    for path in sorted((folder / "cache").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def _dataset_with_facts(folder: Path) -> None:
    rows = [json.dumps({"text": f"document {n} " * 20, "n": n}) for n in range(60)]
    (folder / "a.jsonl").write_text("\n".join(rows))
    options = {"tokenizer": "bytes", "keep": "n", "tokens_per_shard": 2000, "workers": 1}
    tokenmill.prepare(folder / "a.jsonl", folder / "out", compress="zstd:1", **options)
    facts = tokenmill.open(folder / "out", "all").facts(["id"], where="n < 9").to_pylist()
    (folder / "ids.txt").write_text("\n".join(row["id"].hex() for row in facts))


def forget_documents() -> None:
    """Documents are forgotten by their ids; once more, nothing changes."""
    from tokenmill.forgetting import forget

    forget("out", ids="ids.txt", cache_dir="cache")


PROGRAMS: dict[str, Callable[[], None]] = {
    "serve documents": serve_documents,
    "forget documents": forget_documents,
    "write chats": write_chats,
}


@dataclass(frozen=True)
class Operation:
    """A command, in words of its flags, or the name of a program."""

    name: str
    arguments: list[str]
    set_up: Callable[[Path], None]
    made: str
    """The file or folder that it makes or changes."""
    varies: list[str] = field(default_factory=list)
    """Names of files whose bytes hold times, or an address; only their names are compared."""
    stays: list[str] = field(default_factory=list)
    """Names of files that a killed process may leave: they are removed a day later, or never."""
    loses: list[str] = field(default_factory=list)
    """Names of files that are not synced, since they can be made again."""
    commits: tuple[str, ...] = (".",)
    """What is whole when it has its name: with it, all that was written before is seen."""
    refuses_with: tuple[int, ...] = ()
    """Exit codes of the same command again, when all is done."""
    appears: str = "at once"
    """How a reader sees what is made: `at once`, `file by file`, `step by step`, `by lines`."""


def _prepared(name: str, arguments: list[str], set_up: Callable[[Path], None], **more) -> Operation:
    return Operation(name, arguments, set_up, "out", commits=("out/dataset_metadata.json",), **more)


CONVERT = {"made": "new", "commits": ("new",), "refuses_with": (12,)}
TRAINED = {
    "made": "run",
    "varies": ["run/metrics.jsonl", "run/loader.prom"],
    "loses": ["run/metrics.jsonl", "run/loader.prom", "run/run.html", "run/loss.svg", "run/*.json"],
    "commits": ("run/checkpoints/step_*", "run/checkpoints/latest"),
    "appears": "step by step",
}
OPERATIONS = {
    operation.name: operation
    for operation in (
        _prepared("prepare", ["prepare", "corpus", "-o", "out", *SMALL], _corpus),
        _prepared("small prepare", ["prepare", "a.jsonl", "-o", "out", *SMALL], _three_documents),
        _prepared("compressed prepare", ["prepare", "corpus", "-o", "out", *SMALL, *ZSTD], _corpus),
        _prepared(
            "append",
            ["prepare", "more", "-o", "out", "--append", *SMALL[-3:]],
            _dataset_and_more,
            refuses_with=(13,),
        ),
        _prepared(
            "overwrite", ["prepare", "more", "-o", "out", "--overwrite", *SMALL], _dataset_and_more
        ),
        Operation("convert", ["convert", "out", "new", "--to", "megatron"], _dataset, **CONVERT),
        Operation(
            "small convert", ["convert", "out", "new", "--to", "npy"], _small_dataset, **CONVERT
        ),
        Operation(
            "convert columns",
            ["convert", "out", "new", "--to", "tokenmill", "--tokens_per_shard", "400"],
            _chats,
            **CONVERT,
        ),
        Operation("compress columns", ["convert", "out", "new", *ZSTD], _chats, **CONVERT),
        _prepared("forget", ["forget documents"], _dataset_with_facts),
        Operation(
            "write chats",
            ["write chats"],
            _nothing,
            "out",
            stays=[".out.convert/*"],  # the next `convert` to this folder removes it
            commits=("out",),
        ),
        Operation("compress", ["convert", "out", "new", *ZSTD], _dataset, **CONVERT),
        Operation("small compress", ["convert", "out", "new", *ZSTD], _small_dataset, **CONVERT),
        Operation(
            "retokenize",
            ["retokenize", "out", "new", *SMALL, "--tokenizer", "gpt2"],
            _dataset,
            "new",
            commits=("new/dataset_metadata.json",),
        ),
        Operation(
            "train a tokenizer",
            [*("tokenizer", "train", "corpus", "-o", "new", "--vocab_size", "300"), *SMALL[-3:]],
            _corpus,
            "new",
            commits=("new/tokenizer.json",),
        ),
        Operation(
            "small retokenize",
            ["retokenize", "out", "new", *SMALL],
            _small_dataset,
            "new",
            commits=("new/dataset_metadata.json",),
        ),
        Operation(
            "small tokenizer",
            [*("tokenizer", "train", "a.jsonl", "-o", "new", "--vocab_size", "262"), *SMALL[-3:]],
            _three_documents,
            "new",
            commits=("new/tokenizer.json",),
        ),
        Operation(
            "pretokenize",
            ["pretokenize", "a.txt", "--tokenizer", "bytes", "--quiet"],
            _one_text,
            "a.npy",
            commits=("a.npy",),
        ),
        Operation(
            "download",
            ["download", REPO, "-o", "new", "--shards", "3", "--workers", "1", "--quiet"],
            _nothing,
            "new",
            varies=["new/.tokenmill/*"],
            stays=["*.tmp", "*/hub/partial/*"],
            commits=("new/*",),
            appears="file by file",
        ),
        Operation("train", ["train", *flags(TRAIN), "--resume"], _training_text, **TRAINED),
        Operation(
            "edited train",
            ["train", *flags({**EDITED, "decay_iters": 6}), "--resume"],
            _run_with_edits,
            **TRAINED,
        ),
        Operation(
            "edit",
            ["edits", "run", "--skip", "20-29", "--note", "a spike"],
            _run_with_an_edit,
            "run",
            varies=["run/edits.jsonl"],
            commits=(),
            appears="by lines",
        ),
        Operation(
            "serve documents",
            ["serve documents"],
            _dataset_and_batches,
            "cache",
            stays=["cache/*.tmp", "cache/*.lock"],
            commits=("cache/*",),
        ),
    )
}


@contextmanager
def serving_shards() -> Iterator[dict[str, str]]:
    """A hub with three shards, and the environment in which a download finds it."""
    with fake_hub() as hub:
        hub.commit(REPO, SHARDS)
        yield {
            "HF_ENDPOINT": hub.endpoint, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_None",
            "HF_HOME": "/nonexistent",
        }  # fmt: skip
