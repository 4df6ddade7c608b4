"""Token files made by hand with NumPy and struct, good and bad, in every format.

Nothing here uses our writers: these files are what the formats' descriptions say they are.
"""

import gzip
import json
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import xxhash

from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.tokenizer import Tokenizer

EOT = 50256

# Plain prose of our own, long enough that its statistics are those of text.
SENTENCES = [
    "The mill stood at the end of the village, where the river was quick and cold.",
    "Every morning the farmers brought grain in sacks, and every evening they took home flour.",
    "Nobody could say how old the great wheel was; it had always turned.",
    "When the water was low, the miller waited and mended what was broken.",
    "A child asked him once why he wrote each sack into a book.",
    "He answered that what is not counted is lost, and that a lost sack feeds no one.",
    "In winter the ice had to be broken before the first stone would move.",
    "The stones were cut anew in spring, groove by groove, with a small hammer.",
    "Good flour is warm when it comes down, but never hot; hot flour tastes of the stone.",
    "There were three kinds of grain and nine kinds of weather, and he knew them all.",
    "Some days nothing came but rain, and he read the book of sacks from the beginning.",
    "It was, he said, the only story in which every line was true.",
]


FOOTER = " Printed at the mill. Nothing of this page may be sold without flour in return."


def documents(count: int, seed: int = 0, *, words: tuple[int, int] = (5, 400)) -> list[bytes]:
    """Different texts; all end with the same sentence, as pages of one place do."""
    rng = np.random.default_rng(seed)
    known = sorted({word for sentence in SENTENCES for word in sentence.split()})
    texts = []
    for number in range(count):
        picks = rng.integers(0, len(known), rng.integers(*words))
        body = " ".join(known[i] for i in picks)
        texts.append(f"{body}\nPage {seed}.{number}.{FOOTER}\n".encode())
    return texts


@cache
def tokenizer_of(name: str) -> tuple[Tokenizer, bytes]:
    """A tokenizer and its state; loading gpt2 takes a quarter of a second."""
    made = load(name)
    return made, json.dumps(made.state()).encode()


def encoded(texts: Sequence[bytes], name: str = "gpt2") -> list[np.ndarray]:
    """The ids of each text, without end-of-text."""
    ids, ends = tokenizer_of(name)[0].encode_batch(list(texts))
    return np.split(np.asarray(ids), np.asarray(ends)[:-1])


def joined(docs: Sequence[np.ndarray], *, eot: int = EOT, comes: str = "after") -> np.ndarray:
    """One stream with the end-of-text id after, or before, each document."""
    mark = np.array([eot])
    parts = [[d, mark] if comes == "after" else [mark, d] for d in docs]
    return np.concatenate([piece for pair in parts for piece in pair])


def ours(
    folder: Path,
    splits: dict[str, Sequence[np.ndarray]],
    *,
    tokens_per_shard: int = 5000,
    tokenizer: str = "gpt2",
    dtype: str = "<u2",
) -> Path:
    """A dataset of ours, by docs/reference/format.md."""
    made, state = tokenizer_of(tokenizer)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer_state.json").write_bytes(state)
    manifest: dict = {
        "format": "tokenmill",
        "format_version": 1,
        "dtype": np.dtype(dtype).name,
        "tokenizer": {
            "name": made.name,
            "vocab_size": made.vocab_size,
            "end_of_text_id": made.end_of_text_id,
            "fingerprint": made.fingerprint,
            "state": named("tokenizer_state.json", state),
        },
        "tokens_per_shard": tokens_per_shard,
        "splits": {},
        "sources": [{"name": "corpus/a.jsonl", "bytes": 12345, "documents": 10}],
        "settings": {"dedup": "lines", "clean": True},
        "accounts": {},
    }
    number = 0
    for split, docs in splits.items():
        stream = joined(docs, eot=made.end_of_text_id)
        ends = np.cumsum([len(d) + 1 for d in docs])
        shards = []
        (folder / split).mkdir(exist_ok=True)
        for start in range(0, len(stream), tokens_per_shard):
            part = stream[start : start + tokens_per_shard].astype(dtype)
            here = ends[(ends > start) & (ends <= start + len(part))] - start
            name = f"{split}/shard_{number:05d}"
            number += 1
            (folder / f"{name}.bin").write_bytes(part.tobytes())
            (folder / f"{name}.ends").write_bytes(here.astype("<u8").tobytes())
            shards.append(
                named(f"{name}.bin", part.tobytes())
                | {"tokens": len(part)}
                | {
                    "ends": named(f"{name}.ends", here.astype("<u8").tobytes())
                    | {"documents": len(here)}
                }
            )
        manifest["splits"][split] = {
            "tokens": len(stream),
            "documents": len(docs),
            "shards": shards,
        }
    content = json.dumps(manifest, indent=2) + "\n"
    manifest["xxh3_128"] = xxhash.xxh3_128_hexdigest(content.encode())
    (folder / "dataset_metadata.json").write_text(json.dumps(manifest, indent=2) + "\n")
    return folder


def named(name: str, data: bytes) -> dict:
    return {"file": name, "bytes": len(data), "xxh3_128": xxhash.xxh3_128_hexdigest(data)}


def llmc(folder: Path, splits: dict[str, Sequence[np.ndarray]], tokens_per_shard=30_000) -> Path:
    """Shards of llm.c: end-of-text before each document, documents across shards."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, docs in splits.items():
        stream = joined(docs, comes="before")
        for number, start in enumerate(range(0, len(stream), tokens_per_shard), 1):
            part = stream[start : start + tokens_per_shard]
            (folder / f"corpus_{split}_{number:06d}.bin").write_bytes(llmc_bytes(part))
    return folder


def llmc_bytes(ids: np.ndarray) -> bytes:
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(ids)
    return header.tobytes() + ids.astype("<u2").tobytes()


def raw(folder: Path, splits: dict[str, Sequence[np.ndarray]], dtype: str = "<u2") -> Path:
    """train.bin and val.bin, as nanoGPT writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, docs in splits.items():
        (folder / f"{split}.bin").write_bytes(joined(docs).astype(dtype).tobytes())
    return folder


def npy(folder: Path, splits: dict[str, Sequence[np.ndarray]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, docs in splits.items():
        np.save(folder / f"corpus_{split}.npy", joined(docs).astype("<u2"))
    return folder


def megatron(
    folder: Path, splits: dict[str, Sequence[np.ndarray]], *, append_eod: bool = True
) -> Path:
    for split, docs in splits.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        whole = [np.append(d, EOT) if append_eod else d for d in docs]
        lengths = np.array([len(d) for d in whole])
        starts = 2 * np.concatenate([[0], np.cumsum(lengths)[:-1]])
        index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(docs), len(docs) + 1)
        index += lengths.astype("<i4").tobytes() + starts.astype("<i8").tobytes()
        index += np.arange(len(docs) + 1, dtype="<i8").tobytes()
        (folder / split / "corpus.idx").write_bytes(index)
        (folder / split / "corpus.bin").write_bytes(np.concatenate(whole).astype("<u2").tobytes())
    return folder


def datatrove(folder: Path, splits: dict[str, Sequence[np.ndarray]]) -> Path:
    for split, docs in splits.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        stream, ends = joined(docs), np.cumsum([len(d) + 1 for d in docs])
        (folder / split / "000_c.ds").write_bytes(stream.astype("<u2").tobytes())
        (folder / split / "000_c.ds.index").write_bytes(ends.astype("<u8").tobytes())
        text = f"gpt2|2\n{len(stream)}\n{len(stream) / 1000:.2f} KT"
        (folder / split / "000_c.ds.metadata").write_text(text)
    return folder


def dolma(folder: Path, splits: dict[str, Sequence[np.ndarray]]) -> Path:
    for split, docs in splits.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        ends = np.cumsum([len(d) + 1 for d in docs]).tolist()
        (folder / split / "part-0-00000.npy").write_bytes(joined(docs).astype("<u2").tobytes())
        rows = "".join(f"{a},{b},id,src,1\n" for a, b in zip([0, *ends], ends, strict=False))
        (folder / split / "part-0-00000.csv.gz").write_bytes(gzip.compress(rows.encode()))
    return folder


def mds(folder: Path, splits: dict[str, Sequence[np.ndarray]]) -> Path:
    """One shard of documents in a column of uint16."""
    for split, docs in splits.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        samples = []
        for doc in docs:
            values = np.append(doc, EOT).astype("<u2").tobytes()
            shape = bytes([(1 << 2) | 2]) + struct.pack("<I", len(doc) + 1)
            samples.append(struct.pack("<I", len(shape + values)) + shape + values)
        config = {
            "version": 2,
            "format": "mds",
            "column_names": ["tokens"],
            "column_encodings": ["ndarray:uint16"],
            "column_sizes": [None],
            "compression": None,
            "hashes": [],
            "samples": len(docs),
            "size_limit": 1 << 26,
        }
        head = json.dumps(config, sort_keys=True).encode()
        first = 4 + 4 * (len(docs) + 1) + len(head)
        offsets = first + np.concatenate([[0], np.cumsum([len(s) for s in samples])])
        data = struct.pack("<I", len(docs)) + offsets.astype("<u4").tobytes() + head
        data += b"".join(samples)
        (folder / split / "shard.00000.mds").write_bytes(data)
        shard = config | {
            "raw_data": {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}},
            "zip_data": None,
        }
        index = {"version": 2, "shards": [shard]}
        (folder / split / "index.json").write_text(json.dumps(index))
    return folder


def litdata(folder: Path, splits: dict[str, Sequence[np.ndarray]]) -> Path:
    for split, docs in splits.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        items = [np.append(d, EOT).astype("<u2").tobytes() for d in docs]
        offsets = 4 * (len(items) + 2) + np.concatenate([[0], np.cumsum([len(i) for i in items])])
        data = struct.pack("<I", len(items)) + offsets.astype("<u4").tobytes() + b"".join(items)
        (folder / split / "chunk-0-0.bin").write_bytes(data)
        chunk = {
            "chunk_bytes": len(data),
            "chunk_size": len(items),
            "dim": sum(len(d) + 1 for d in docs),
            "filename": "chunk-0-0.bin",
        }
        config = {
            "compression": None,
            "chunk_size": None,
            "chunk_bytes": 1 << 26,
            "data_format": ["no_header_numpy:5"],
            "data_spec": "[1, {}]",
            "encryption": None,
            "item_loader": "TokensLoader",
        }
        index = {"chunks": [chunk], "config": config, "updated_at": "0"}
        (folder / split / "index.json").write_text(json.dumps(index))
    return folder


def litpkds(folder: Path, splits: dict[str, Sequence[np.ndarray]], *, padding: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, docs in splits.items():
        ids = np.concatenate([joined(docs), np.full(padding, EOT)])
        head = b"LITPKDS" + struct.pack("<QBQ", 1, 8, len(ids))
        (folder / f"{split}_0000000000.bin").write_bytes(head + ids.astype("<u2").tobytes())
    return folder


ALL_FORMATS = {
    "tokenmill": (ours, {}),
    "llmc": (llmc, {}),
    "nanogpt": (raw, {"dtype": "uint16"}),
    "npy": (npy, {}),
    "megatron": (megatron, {}),
    "datatrove": (datatrove, {}),
    "dolma": (dolma, {"dtype": "uint16"}),
    "mds": (mds, {}),
    "litdata": (litdata, {}),
    "litpkds": (litpkds, {}),
}
