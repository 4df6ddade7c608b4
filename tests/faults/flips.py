"""Change every byte of what has a hash, cut every file, swap files: all of it must be noticed.

A dataset, plain and compressed, by `verify` with `full`; the index of documents and the state of a
checkpoint where they are read. A change of a byte that nobody reads may also give the same data.
Files without a hash (edits that are asked of a run, a tokenizer that was trained) are refused or
read: another edit is an edit.
"""

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import operations
from faults.tally import Tally
from small_corpus import files_of

import tokenmill
from tokenmill.errors import TokenmillError

CARD = "README.md"  # for people; nothing reads it


@dataclass(frozen=True)
class Flipped:
    """Files that are changed, and what reads them."""

    name: str
    folder: Path
    read: Callable[[], str]
    """Returns `noticed`, or how else it ended; raises an error of ours, or an assertion."""
    every: int
    """One byte in so many is changed."""
    all_bits: Callable[[str], bool] = lambda name: False
    """Whether all bits of the bytes of a file are changed, or one of them."""
    chosen: Callable[[str], bool] = lambda name: name != CARD
    """Which files are changed, by name."""


def flip_bytes(tally: Tally, scratch: Path, every: int) -> None:
    """Flip bits of every `every`-th byte; cut files; swap those of a dataset."""
    for make in (_plain, _compressed, _columns, _index, _state, _edits, _tokenizer):
        folder = scratch / make.__name__.removeprefix("_")
        folder.mkdir()
        flipped = make(folder, every)
        chance = random.Random(f"{tally.seed} flips")
        files = {name: d for name, d in files_of(flipped.folder).items() if flipped.chosen(name)}
        assert files, flipped.name
        _flip(tally, flipped, files, chance)
        _cut(tally, flipped, files, every)
        if flipped.name == "":
            _swap(tally, flipped, files, chance)
        assert flipped.read() != "noticed", f"{flipped.name}: what is sound is refused"


def _flip(tally: Tally, flipped: Flipped, files: dict[str, bytes], chance: random.Random) -> None:
    for name, data in files.items():
        for at in range(chance.randrange(flipped.every), len(data), flipped.every):
            for bit in range(8) if flipped.all_bits(name) else [chance.randrange(8)]:
                changed = bytes([data[at] ^ 1 << bit])
                _expect(tally, flipped, name, data[:at] + changed + data[at + 1 :], data, "flips")


def _cut(tally: Tally, flipped: Flipped, files: dict[str, bytes], every: int) -> None:
    for name, data in files.items():
        for length in range(0, len(data), max(every, len(data) // 50 + 1)):
            _expect(tally, flipped, name, data[:length], data, "cuts")
        _expect(tally, flipped, name, data + b"\0", data, "one byte more")


def _swap(tally: Tally, flipped: Flipped, files: dict[str, bytes], chance: random.Random) -> None:
    names = [name for name in files if name.endswith((".bin", ".ends"))]
    for name in names:
        other = chance.choice([each for each in names if files[each] != files[name]])
        _expect(tally, flipped, name, files[other], files[name], "swaps")


def _expect(
    tally: Tally, flipped: Flipped, name: str, changed: bytes, sound: bytes, kind: str
) -> None:
    path = flipped.folder / name
    path.write_bytes(changed)
    kind_of_file = "manifest" if name == "dataset_metadata.json" else Path(name).suffix
    what = f"{kind}, {flipped.name or kind_of_file}"
    try:
        tally.add(what, flipped.read())
    except TokenmillError:
        tally.add(what, "noticed")
    except Exception as error:
        tally.fail(what, f"{name}: {error!r}")
    finally:
        path.write_bytes(sound)


def _dataset(folder: Path, every: int, compress: str | None, name: str) -> Flipped:
    rows = [json.dumps({"text": f"document {n} of the mill " * (n % 7 + 1)}) for n in range(25)]
    (folder / "a.jsonl").write_text("\n".join(rows))
    out = folder / "out"
    more = {"tokenizer": "bytes", "tokens_per_shard": 900, "compress": compress, "workers": 1}
    tokenmill.prepare(folder / "a.jsonl", out, **more)
    is_first = compress is None and every == 1
    return _verified(name, out, every, is_first)


def _verified(name: str, out: Path, every: int, is_first: bool = False) -> Flipped:
    expected = files_of(out)

    def read() -> str:
        if tokenmill.verify(out, full=True).damaged:
            return "noticed"
        assert files_of(out) == expected, "other bytes are called sound"
        return "sound"

    return Flipped(name, out, read, every, lambda n: is_first and n.endswith(".json"))


def _plain(folder: Path, every: int) -> Flipped:
    return _dataset(folder, every, None, "")


def _compressed(folder: Path, every: int) -> Flipped:
    return _dataset(folder, every, "zstd:1", "compressed dataset")


def _columns(folder: Path, every: int) -> Flipped:
    operations.OPERATIONS["convert columns"].set_up(folder)
    return _verified("dataset with columns", folder / "out", every)


def _index(folder: Path, every: int) -> Flipped:
    operations.OPERATIONS["serve documents"].set_up(folder)
    _inside(folder, operations.serve_documents)

    def read() -> str:
        _inside(folder, operations.serve_documents)  # compares its batches
        return "same batches"

    def is_index(name: str) -> bool:
        return name.endswith(".documents")

    return Flipped("index of documents", folder, read, max(4, every // 2), chosen=is_index)


def _inside(folder: Path, work: Callable[[], Any]) -> Any:
    before = os.getcwd()
    os.chdir(folder)
    try:
        return work()
    finally:
        os.chdir(before)


def _state(folder: Path, every: int) -> Flipped:
    import torch

    from tokenmill.train import checkpoint

    config = {"learning_rate": 0.001, "max_iters": 90, "note": "\u6c34\u8f66", "fim": None}
    state = {"config": config, "vocab_size": 257, "loader": {"samples": 12}, "edits": []}
    saved = checkpoint.save(
        folder, step=4, model={"w": torch.ones(3)}, optimizer={}, state=state, keep=1
    )
    expected = checkpoint.load(saved)

    def read() -> str:
        found = checkpoint.load(saved)
        assert (found.step, found.state) == (expected.step, expected.state), "another state is read"
        return "same state"

    return Flipped(
        "state.json", saved, read, max(1, every // 20), lambda n: True, lambda n: n == "state.json"
    )


def _edits(folder: Path, every: int) -> Flipped:
    from tokenmill.train.edits_file import REFUSALS, apply_line, read_lines
    from tokenmill.train.run_data import open_run

    operations.OPERATIONS["edited train"].set_up(folder)

    def make_edits() -> str:
        loader = open_run(Path("run")).loader
        ended = "read"
        for line in read_lines(Path("run"), 0):
            try:
                apply_line(loader, line, "a line")
            except REFUSALS:
                ended = "refused"
        next(loader)
        return ended

    def read() -> str:
        return _inside(folder, make_edits)

    return Flipped("edits.jsonl", folder / "run", read, every, chosen=lambda n: n == "edits.jsonl")


def _tokenizer(folder: Path, every: int) -> Flipped:
    from tokenmill.tokens.load_tokenizer import load

    operations.OPERATIONS["small tokenizer"].set_up(folder)
    tokenmill.train_tokenizer(folder / "a.jsonl", folder / "new", vocab_size=262, workers=1)

    def read() -> str:
        ids = load(str(folder / "new")).encode_batch([b"document of the mill"])
        return "read" if len(ids[0]) else "nothing is encoded"

    is_read = lambda n: n in ("tokenizer.json", "tokenizer.tiktoken")  # noqa: E731
    return Flipped("trained tokenizer", folder / "new", read, every * 8, chosen=is_read)
