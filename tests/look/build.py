"""Token files made by hand with NumPy and struct, good and bad, in every format.

Nothing here uses our writers: these files are what the formats' descriptions say they are.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xxhash

from tokenmill.tokens.load import load

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


def documents(count: int, seed: int = 0) -> list[bytes]:
    """Different texts of one to thirty sentences."""
    rng = np.random.default_rng(seed)
    texts = []
    for number in range(count):
        picks = rng.integers(0, len(SENTENCES), rng.integers(1, 30))
        body = " ".join(SENTENCES[i] for i in picks)
        texts.append(f"Page {seed}.{number}. {body}\n".encode())
    return texts


def encoded(texts: Sequence[bytes], name: str = "gpt2") -> list[np.ndarray]:
    """The ids of each text, without end-of-text."""
    ids, ends = load(name).encode_batch(list(texts))
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
    """A dataset of ours, by docs/format.md."""
    made = load(tokenizer)
    folder.mkdir(parents=True, exist_ok=True)
    state = json.dumps(made.state()).encode()
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
        "settings": {"dedup": "lines", "normalize": True},
        "books": {},
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
    (folder / "dataset_metadata.json").write_text(json.dumps(manifest))
    return folder


def named(name: str, data: bytes) -> dict:
    return {"file": name, "bytes": len(data), "xxh3_128": xxhash.xxh3_128_hexdigest(data)}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
