"""Everything that reads a file of others, with a sound file to start from.

`read` is given the damaged folder. It may raise an error of ours; otherwise what it returns was
compared with something independent as far as that is possible: sizes, hashes, the standard library.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from faults import served, tokenizer_files, tokenizer_parts
from faults.mutate import mutate
from faults.tokenizer_files import only_file
from formats.conformance import DATA, DOCUMENTS
from text.naive import naive_documents, read_all

import tokenmill
from tokenmill.errors import BadInputError
from tokenmill.text.reading.chunks import ReadRules

MOST_TEXT = 64 << 20  # bytes that a small compressed file may become here
WORDS = ["the mill turns", 'grain, and "flour"', "w\u00f6rter", "", "line\nline", "\u6c34\u8f66"]


@dataclass(frozen=True)
class Reader:
    """One kind of file."""

    name: str
    make: Callable[[Path], object]
    """Writes the sound files into an empty folder."""
    read: Callable[[Path, dict[str, bytes]], object]
    """Reads the folder; also gets the sound files."""
    imports: tuple[str, ...] = ()
    """What it takes long to import: imported once, before the children that read."""
    slow: bool = False
    """Whether a case takes a tenth of a second, not a few milliseconds; then fewer are tried."""
    also: tuple[type[Exception], ...] = ()
    """Other errors that are the right ones, such as ValueError for a file that a user writes."""
    damages: Callable[[str], bool] = lambda name: True
    """Which files are damaged, by name."""
    mutate: Callable[[bytes, random.Random], bytes] = mutate
    """How."""
    counted: str = "files"
    """What the cases are called."""


def _copy(sample: str) -> Callable[[Path], object]:
    return lambda folder: shutil.copytree(DATA / sample, folder, dirs_exist_ok=True)


def _read_tokens(**options: Any) -> Callable[[Path, dict[str, bytes]], object]:
    def read(folder: Path, sound: dict[str, bytes]) -> None:
        data = tokenmill.open(folder, "all", **options)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        assert 0 <= data.num_tokens * data.dtype.itemsize <= size, "more tokens than bytes"
        ids = data.tokens(0, data.num_tokens)
        assert len(ids) == data.num_tokens
        if data.num_tokens > 8:
            next(tokenmill.BatchLoader(data, batch_size=2, block_size=4))
        ends = data.document_ends(0, data.num_tokens)
        assert not len(ends) or (ends[0] > 0 and ends[-1] <= data.num_tokens), "an end outside"
        assert (np.diff(ends) > 0).all(), "ends that do not grow"

    return read


def _make_ours(folder: Path, compress: str | None = None) -> None:
    rows = "".join(
        json.dumps({"text": " ".join(map(str, document))}) + "\n" for document in DOCUMENTS
    )
    (folder.parent / "ours.jsonl").write_text(rows)
    settings = {"tokenizer": "bytes", "tokens_per_shard": 500, "compress": compress, "workers": 1}
    tokenmill.prepare(folder.parent / "ours.jsonl", folder, **settings)


def _read_ours(folder: Path, sound: dict[str, bytes]) -> None:
    data = tokenmill.open(folder, "all", verify=True)
    names = sorted(name for name in sound if name.endswith(".bin"))
    expected = np.frombuffer(b"".join(sound[name] for name in names), "<u2")
    np.testing.assert_array_equal(data.tokens(0, data.num_tokens), expected)
    data.document_ends(0, data.num_tokens)
    data.decode(data.tokens(0, 20))
    assert tokenmill.verify(folder, full=True) is not None


def _make_compressed(folder: Path) -> None:
    _make_ours(folder, compress="zstd")


_compressed_tokens: list[np.ndarray] = []


def _read_compressed_shards(folder: Path, sound: dict[str, bytes]) -> None:
    if not _compressed_tokens:
        whole = tokenmill.open(folder.parent / "sound", "all", verify=True)
        _compressed_tokens.append(whole.tokens(0, whole.num_tokens))
    unverified = tokenmill.open(folder, "all")
    assert len(unverified.tokens(0, unverified.num_tokens)) == unverified.num_tokens
    data = tokenmill.open(folder, "all", verify=True)
    np.testing.assert_array_equal(data.tokens(0, data.num_tokens), _compressed_tokens[0])
    data.document_ends(0, data.num_tokens)
    assert tokenmill.verify(folder, full=True) is not None


def _texts(documents: Iterable[str]) -> bytes:
    return "".join(json.dumps({"text": text, "n": [1, {}]}) + "\n" for text in documents).encode()


def _write(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def _read_plain(folder: Path, sound: dict[str, bytes]) -> None:
    path, rules = only_file(folder), ReadRules(document_is="line", on_bad_input="replace")
    data = path.read_bytes()
    read_all(path, rules, unit_bytes=50, chunk_bytes=40)
    try:
        data.decode()
    except UnicodeDecodeError:
        _must_refuse(path, ReadRules(document_is="line"))
        return
    documents, dropped, _ = read_all(path, rules, unit_bytes=70, chunk_bytes=33)
    expected = naive_documents(data, rules)
    assert documents == [text for text in expected if text]
    assert dropped.get("empty", 0) == expected.count(b"")


def _must_refuse(path: Path, rules: ReadRules) -> None:
    try:
        read_all(path, rules)
    except BadInputError:
        return
    raise AssertionError("text that is not UTF-8 was read as if it were")


def _read_jsonl(folder: Path, sound: dict[str, bytes]) -> None:
    path = only_file(folder)
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip(b" \t\r\xef\xbb\xbf")]
    documents, dropped, _ = read_all(path, ReadRules(on_bad_input="skip"), unit_bytes=90)
    assert len(documents) + sum(dropped.values()) == len(lines), "a line was lost"
    documents, _, _ = read_all(path, ReadRules(), unit_bytes=64)
    rows = [json.loads(line.removeprefix(b"\xef\xbb\xbf")) for line in lines]
    assert documents == [row["text"].encode() for row in rows if row["text"]]


def _csv(rows: Iterable[str]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([["n", "text"], *([n, text] for n, text in enumerate(rows))])
    return out.getvalue().encode()


def _read_csv(folder: Path, sound: dict[str, bytes]) -> None:
    path = only_file(folder)
    read_all(path, ReadRules(on_bad_input="skip"))
    documents, _, _ = read_all(path, ReadRules())
    text = path.read_bytes().decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    header, *rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    column = header.index("text")
    found = [row[column].encode("utf-8", "surrogateescape") for row in rows]
    assert documents == [text for text in found if text]


def _make_parquet(folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"text": WORDS * 20, "n": list(range(len(WORDS) * 20))})
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=30)


def _read_parquet(folder: Path, sound: dict[str, bytes]) -> None:
    read_all(only_file(folder), ReadRules(on_bad_input="skip"), unit_bytes=200)
    read_all(only_file(folder), ReadRules(), unit_bytes=200)


def _read_compressed(
    decompress: Callable[[bytes], bytes],
) -> Callable[[Path, dict[str, bytes]], object]:
    def read(folder: Path, sound: dict[str, bytes]) -> None:
        path = only_file(folder)
        documents, _, _ = read_all(path, ReadRules(on_bad_input="replace"))
        text = decompress(path.read_bytes())
        assert b"".join(documents) == text.decode("utf-8", "replace").encode(), "other text"

    return read


def _unzstd(data: bytes) -> bytes:
    from backports import zstd

    return zstd.decompress(data)


def _zstd(data: bytes) -> bytes:
    from backports import zstd

    return zstd.compress(data)


def _make_checkpoint(folder: Path) -> None:
    import torch

    from tokenmill.train import checkpoint

    state = {
        "config": {},
        "model": {},
        "vocab_size": 7,
        "loader": {"samples": 12},
        "rng": {"seed": 1},
    }
    checkpoint.save(
        folder, step=4, model={"w": torch.arange(6.0)}, optimizer={"lr": 0.1, "t": torch.ones(3)},
        state=state, keep=2,
    )  # fmt: skip
    rows = [{"step": n, "loss": 1 / (n + 1), "val_loss": None} for n in range(5)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _read_checkpoint(folder: Path, sound: dict[str, bytes]) -> None:
    import torch

    from tokenmill.train import checkpoint
    from tokenmill.train.run_record import points

    points(folder / "metrics.jsonl", "loss")
    newest = checkpoint.latest(folder)
    if newest is not None:
        found = checkpoint.load(newest)
        assert torch.equal(found.model["w"], torch.arange(6.0))
        assert torch.equal(found.optimizer["t"], torch.ones(3))


def _loader() -> tokenmill.BatchLoader:
    data = tokenmill.from_array(np.arange(500, dtype="<u2"))
    return tokenmill.BatchLoader(data, batch_size=2, block_size=8, seed=3)


def _make_loader_state(folder: Path) -> None:
    loader = _loader()
    for _ in range(5):
        next(loader)
    (folder / "state.json").write_text(json.dumps(loader.state_dict()))


def _read_loader_state(folder: Path, sound: dict[str, bytes]) -> None:
    try:
        state = json.loads((folder / "state.json").read_bytes())
    except (ValueError, RecursionError):
        return  # what a user's own checkpoint does
    loader = _loader()
    loader.load_state_dict(state)
    next(loader)


def _make_config(folder: Path) -> None:
    shutil.copy(Path(__file__).parents[2] / "configs" / "toy_cpu.json", folder / "a.json")


def _read_config(folder: Path, sound: dict[str, bytes]) -> None:
    from tokenmill.train.config import load_config

    load_config(str(folder / "a.json"), {"input_file": "a.txt"}).resolved(1)


def _is_record(name: str) -> bool:
    return "/hub/" in name


def _is_receipt(name: str) -> bool:
    return name.startswith("out/.preparation/receipts/")


def _is_work(name: str) -> bool:
    return name.startswith("out/") and not name.endswith(("/boot", "/lock"))


LINES = "\n".join(WORDS * 4).encode()
HUB = ("huggingface_hub.hf_api",)
FORMATS = {
    "datatrove": {}, "litdata": {}, "litdata_tensor": {}, "litpkds": {}, "llmc": {},
    "llmc_uint32": {}, "mds": {}, "mds_columns": {}, "mds_rows": {}, "mds_pkl": {}, "mds_zstd": {},
    "mds_bytes": {"dtype": "uint16"}, "megatron": {}, "megatron_int32": {}, "modalities": {},
    "npy": {}, "npy_rows": {}, "nanogpt": {"dtype": "uint16"}, "dolma": {"dtype": "uint16"},
}  # fmt: skip
READERS = {
    reader.name: reader
    for reader in (
        *(
            Reader(name, _copy(name), _read_tokens(end_of_text=50256, **options))
            for name, options in FORMATS.items()
        ),
        Reader("ours", _make_ours, _read_ours, damages=lambda name: name != "README.md"),
        Reader(
            "ours, compressed",
            _make_compressed,
            _read_compressed_shards,
            damages=lambda name: name != "README.md",
        ),
        Reader("text", _write("a.txt", LINES), _read_plain),
        Reader("jsonl", _write("a.jsonl", _texts(WORDS * 3)), _read_jsonl),
        Reader("csv", _write("a.csv", _csv(WORDS * 3)), _read_csv),
        Reader("parquet", _make_parquet, _read_parquet, imports=("pyarrow.parquet",)),
        Reader("gz", _write("a.txt.gz", gzip.compress(LINES)), _read_compressed(gzip.decompress)),
        Reader("xz", _write("a.txt.xz", lzma.compress(LINES)), _read_compressed(lzma.decompress)),
        Reader("bz2", _write("a.txt.bz2", bz2.compress(LINES)), _read_compressed(bz2.decompress)),
        Reader("zst", _write("a.txt.zst", _zstd(LINES)), _read_compressed(_unzstd)),
        Reader(
            "tokenizer states",
            tokenizer_files.make_states,
            tokenizer_files.read_states,
            ("tokenizers", "sentencepiece", "tiktoken"),
        ),
        Reader("tiktoken", tokenizer_files.rank_file, tokenizer_files.read_ranks),
        Reader(
            "tokenizer.json",
            tokenizer_files.make_tokenizer_json,
            tokenizer_files.read_tokenizer_json,
            ("tokenizers",),
        ),
        Reader(
            "sentencepiece",
            tokenizer_files.make_sentencepiece,
            tokenizer_files.read_tokenizer_json,
            ("sentencepiece",),
        ),
        Reader(
            "sentencepiece, on gigatoken",
            tokenizer_files.make_bpe_model,
            tokenizer_files.read_tokenizer_json,
            ("sentencepiece",),
        ),
        Reader(
            "tokenizer.json with byte fallback",
            tokenizer_files.make_pieces_json,
            tokenizer_files.read_tokenizer_json,
            ("tokenizers",),
        ),
        Reader(
            "tokenizer.json of any parts",
            tokenizer_parts.make,
            tokenizer_parts.read,
            ("tokenizers",),
            mutate=tokenizer_parts.mutate_parts,
        ),
        Reader("checkpoint", _make_checkpoint, _read_checkpoint, ("tokenmill.train.checkpoint",)),
        Reader("loader state", _make_loader_state, _read_loader_state),
        Reader("hub listing", served.make_listing, served.read_listing, HUB, slow=True),
        Reader(
            "hub records",
            served.make_records,
            served.read_records,
            HUB,
            slow=True,
            damages=_is_record,
        ),
        Reader(
            "stopped preparation",
            served.make_stopped,
            served.read_stopped,
            slow=True,
            damages=_is_receipt,
        ),
        Reader(
            "after power loss",
            served.make_stopped,
            served.read_after_power_loss,
            slow=True,
            damages=_is_work,
            mutate=served.lose_power,
        ),
        Reader(
            "train config",
            _make_config,
            _read_config,
            ("tokenmill.train.config",),
            also=(ValueError,),
        ),
    )
}
