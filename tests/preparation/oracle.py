"""The whole of a preparation, done naively: every document whole and in memory, Python sets.

Nothing here comes from the code under test. The rules are those of the documentation.
"""

import base64
import json
import os
import re
import unicodedata
from pathlib import Path

import numpy as np
import tiktoken
import xxhash

SOURCE = Path(__file__).parents[2] / "src"
RANK_FILE = SOURCE / "tokenmill" / "tokens" / "data" / "gpt2.tiktoken"
GPT2_PATTERN = (
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
)
ENOUGH_VAL_DOCUMENTS = 10
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # nothing waits for a disk


def tiktoken_of(rank_file, end_of_text):
    """tiktoken itself, on a rank file."""
    lines = (line.split() for line in Path(rank_file).read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding(
        "oracle",
        pat_str=GPT2_PATTERN,
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": end_of_text},
    )


def clean_line(line):
    """Rules 1 to 6, which do not look beyond a line."""
    line = line.replace("\ufeff", "").replace("\r", "")
    line = "".join(c for c in line if not (ord(c) < 32 and c != "\t") and not 127 <= ord(c) < 160)
    line = unicodedata.normalize("NFC", line)
    line = re.sub("[ \t]{2,}", " ", line)
    return line.rstrip(" \t")


def squeeze(text):
    """Rule 7."""
    return re.sub("^\n{2,}", "\n", re.sub("\n{3,}", "\n\n", text))


def clean_document(text):
    """All rules."""
    return squeeze("\n".join(map(clean_line, text.split("\n"))))


def counts(line, raw, min_chars, long_line):
    """Whether a line can be a duplicate."""
    if len(raw.encode()) > long_line or len(line) < max(1, min_chars):
        return False
    return bool(line.strip(" \t\n\r\x0b\x0c"))


def prepared_texts(documents, *, clean, dedup, min_chars=16, long_line=8 << 20):
    """What is left of each document before it is encoded, and how many lines were dropped."""
    seen, texts, dropped = set(), [], 0
    for document in documents:
        if dedup != "lines":
            texts.append(clean_document(document) if clean else document)
            continue
        raw_lines = document.split("\n")
        kept = ""
        for number, raw in enumerate(raw_lines):
            line = clean_line(raw) if clean else raw
            if counts(line, raw, min_chars, long_line):
                if line in seen:
                    dropped += 1
                    continue
                seen.add(line)
            kept += line + ("\n" if number < len(raw_lines) - 1 else "")
        texts.append(squeeze(kept) if clean else kept)
    return texts, dropped


def is_empty(text, clean):
    return not text or (clean and not text.strip(" \t\n\r\x0b\x0c"))


def expected(documents, encode, end_of_text, *, val_fraction, clean, dedup, **lines):
    """{split: [ids of each document, end-of-text included]} and the accounts."""
    texts, lines_dropped = prepared_texts(documents, clean=clean, dedup=dedup, **lines)
    kept, seen, empty, emptied, duplicate = [], set(), 0, 0, 0
    for document, text in zip(documents, texts, strict=True):
        if is_empty(clean_document(document) if clean else document, clean):
            empty += 1
        elif is_empty(text, clean):
            emptied += 1
        elif dedup == "documents" and text in seen:
            duplicate += 1
        else:
            seen.add(text)
            kept.append(encode(text))
    splits = {"train": [], "val": []}
    if val_fraction and len(kept) * val_fraction >= ENOUGH_VAL_DOCUMENTS:
        for ids in kept:
            digest = xxhash.xxh3_128_digest(np.array(ids, "<u4").tobytes())
            held_out = int.from_bytes(digest[8:], "little") < val_fraction * 2**64
            splits["val" if held_out else "train"].append([*ids, end_of_text])
    else:
        splits["train"] = [[*ids, end_of_text] for ids in kept]
        if val_fraction:
            splits = hold_out_the_end(splits["train"], val_fraction)
    accounts = {
        "documents_in": len(documents),
        "documents_written": len(kept),
        "dropped": {
            reason: count
            for reason, count in (
                ("duplicate", duplicate),
                ("empty", empty),
                ("only repeated lines", emptied),
            )
            if count
        },
        "lines_dropped": lines_dropped,
    }
    return {name: found for name, found in splits.items() if found}, accounts


def hold_out_the_end(documents, val_fraction):
    """The last part of the axis; the document that is cut by it is in both."""
    axis = [(number, token) for number, ids in enumerate(documents) for token in ids]
    cut = len(axis) - max(1, round(len(axis) * val_fraction)) if len(axis) > 1 else len(axis)
    return {"train": by_document(axis[:cut]), "val": by_document(axis[cut:])}


def by_document(axis):
    found = {}
    for number, token in axis:
        found.setdefault(number, []).append(token)
    return list(found.values())


def read_dataset(folder):
    """{split: [ids of each document]} by the on-disk format alone, everything checked."""
    folder = Path(folder)
    manifest = json.loads((folder / "dataset_metadata.json").read_bytes())
    per_shard, number, splits = manifest["tokens_per_shard"], 0, {}
    for name, split in manifest["splits"].items():
        axis, ends = [], []
        for at, shard in enumerate(split["shards"]):
            data = (folder / shard["file"]).read_bytes()
            index = (folder / shard["ends"]["file"]).read_bytes()
            assert xxhash.xxh3_128_hexdigest(data) == shard["xxh3_128"]
            assert xxhash.xxh3_128_hexdigest(index) == shard["ends"]["xxh3_128"]
            ids = np.frombuffer(data, f"<u{np.dtype(manifest['dtype']).itemsize}")
            assert len(ids) == shard["tokens"] <= per_shard
            if "added" not in manifest["settings"]:
                assert shard["file"] == f"{name}/shard_{number:05d}.bin"
                assert len(ids) == per_shard or at == len(split["shards"]) - 1
            ends += (np.frombuffer(index, "<u8") + len(axis)).tolist()
            axis += ids.tolist()
            number += 1
        assert len(axis) == split["tokens"]
        assert len(ends) == split["documents"]
        assert not ends or ends[-1] == len(axis)
        splits[name] = [axis[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    return splits


def hashes_of_files(folder):
    """xxh3 of every file below a folder, by name."""
    folder = Path(folder)
    return {
        str(path.relative_to(folder)): xxhash.xxh3_128_hexdigest(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def accounts_of(folder):
    return json.loads((Path(folder) / "dataset_metadata.json").read_bytes())["accounts"]
