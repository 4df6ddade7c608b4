"""A tokenmill dataset written plainly, by the specification and not by the product."""

import json
from pathlib import Path

import numpy as np
import xxhash
from manifests import signed

from tokenmill.tokens.load_tokenizer import load


def write_ours(
    folder: Path, splits: dict[str, list[list[int]]], tokens_per_shard: int, dtype: str = "uint16"
) -> Path:
    """Documents (each with its end-of-text id) as shards, indexes, tokenizer and manifest."""
    gpt2 = load("gpt2")
    state = json.dumps(gpt2.state()).encode()
    tree = {
        "format": "tokenmill",
        "format_version": 1,
        "dtype": dtype,
        "tokenizer": {
            "name": "gpt2",
            "vocab_size": 50257,
            "end_of_text_id": 50256,
            "fingerprint": gpt2.fingerprint,
            "state": record(folder, "tokenizer_state.json", state),
        },
        "tokens_per_shard": tokens_per_shard,
        "splits": {},
        "sources": [],
        "settings": {},
        "accounts": {},
    }
    number = 0
    for split, documents in splits.items():
        flat = [token for document in documents for token in document]
        ends = np.cumsum([len(document) for document in documents])
        shards = []
        for start in range(0, len(flat), tokens_per_shard):
            part = flat[start : start + tokens_per_shard]
            inside = ends[(ends > start) & (ends <= start + len(part))] - start
            name = f"{split}/shard_{number:05d}"
            number += 1
            shards.append(
                {
                    **record(folder, f"{name}.bin", np.array(part, dtype).tobytes()),
                    "tokens": len(part),
                    "ends": {
                        **record(folder, f"{name}.ends", inside.astype("<u8").tobytes()),
                        "documents": len(inside),
                    },
                }
            )
        tree["splits"][split] = {
            "tokens": len(flat),
            "documents": len(documents),
            "shards": shards,
        }
    (folder / "dataset_metadata.json").write_bytes(signed(tree))
    return folder


def record(folder: Path, name: str, data: bytes) -> dict:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return {"file": name, "bytes": len(data), "xxh3_128": xxhash.xxh3_128_hexdigest(data)}
