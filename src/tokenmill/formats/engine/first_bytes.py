"""First bytes that say what a file is, also of files that hold no tokens."""

# first bytes -> format that reads it
TOKENS = {
    (20240520).to_bytes(4, "little"): "llmc",
    (20240801).to_bytes(4, "little"): "llmc",
    b"\x93NUMPY": "npy",
    b"MMIDIDX\x00\x00": "megatron",
    b"LITPKDS": "litpkds",
}

# first bytes -> what it is, and what to do with it
OTHERS = {
    (20240522).to_bytes(4, "little"): (
        "an evaluation file of llm.c (HellaSwag, MMLU), not training tokens",
        "pass the training shards only, by name or glob",
    ),
    (20240527).to_bytes(4, "little"): (
        "a training state of llm.c, not tokens",
        "pass the training shards only, by name or glob",
    ),
    b"TNTIDX\x00\x00": (
        "a fairseq index (TNTIDX), the predecessor of Megatron's",
        "write it again with a current preprocess_data.py (--dataset-impl mmap), then open that",
    ),
    b"PK\x03\x04": ("a zip or .npz archive", "unpack it, then open the .npy inside"),
    b"PAR1": (
        "a parquet file",
        "if it holds text: tokenmill prepare FILE -o OUTPUT",
    ),
    b"\x1f\x8b\x08": (
        "gzip compressed",
        "if it holds text: tokenmill prepare FILE -o OUTPUT; if tokens, unpack them: gzip -dk FILE",
    ),
    b"\x28\xb5\x2f\xfd": (
        "zstd compressed",
        "if it holds text: tokenmill prepare FILE -o OUTPUT; if tokens, unpack them: zstd -dk FILE",
    ),
    b"ARROW1": (
        "an Arrow file",
        "if it holds text, write it as parquet or JSON lines; `tokenmill prepare` reads those",
    ),
}


def known_head(first_bytes: bytes) -> str | None:
    """What these first bytes announce, or None; only what raw tokens would not show by chance."""
    for magic, name in TOKENS.items():
        if first_bytes.startswith(magic):
            return name
    for magic, (what, _) in OTHERS.items():
        if len(magic) >= 4 and first_bytes.startswith(magic):
            return what
    return None
