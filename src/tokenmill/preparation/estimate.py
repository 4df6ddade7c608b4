"""What to expect of a preparation, from about one percent of its input. Nothing is written."""

import os
import time
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any

import numpy as np

from tokenmill.preparation.documents import CleanChunk, cleaned, lines_of
from tokenmill.preparation.plan import choose_dtype
from tokenmill.preparation.settings import Settings
from tokenmill.preparation.target import Inputs
from tokenmill.preparation.vocabulary import load_tokenizer
from tokenmill.text.dedup import HASH, hash_all, make_run
from tokenmill.text.read import read_unit
from tokenmill.text.sources import find_sources
from tokenmill.text.units import cut_into_units
from tokenmill.tokens.chars import CharsTokenizer

SHARE = 0.01
STRIDE_BYTES = 256 << 10  # read so much here and there, rather than one stretch


@dataclass(frozen=True)
class Estimate:
    """Expected numbers; `duplicates` is the share of lines or documents repeated in the sample."""

    files: int
    bytes_in: int
    bytes_sampled: int
    documents: int
    tokens: int
    dtype: str
    disk_bytes: int
    duplicates: float
    seconds: float
    workers: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def to_text(self) -> str:
        """For people."""
        return "\n".join(
            [
                f"input       {self.files:,} files, {self.bytes_in / 1e6:,.1f} MB "
                f"(read {self.bytes_sampled / 1e6:,.1f} MB of it)",
                f"tokens      about {self.tokens:,}, {self.dtype}",
                f"disk        about {self.disk_bytes / 1e6:,.1f} MB, twice that while it is made",
                f"duplicates  at least {self.duplicates:.1%} (repeated within what was read)",
                f"time        about {self.seconds:,.0f} s with {self.workers} workers",
            ]
        )


def estimate(inputs: Inputs, *, workers: int | None = None, **given: Any) -> Estimate:
    """Read pieces spread over all inputs, clean and encode them, and scale up."""
    settings = Settings(**given)
    wanted = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    sources = find_sources(wanted)
    units = cut_into_units(sources, STRIDE_BYTES)
    every = max(1, int(len(units) * SHARE) and round(1 / SHARE))
    tokenizer = load_tokenizer(settings)
    dtype = choose_dtype(tokenizer, settings.dtype).name if tokenizer else "uint16"
    workers = workers or len(os.sched_getaffinity(0))
    sampled = tokens = documents = 0
    hashes: list[np.ndarray] = [np.empty(0, HASH)]
    started = time.perf_counter()
    for unit in units[::every]:
        chunks = read_unit(
            sources[unit.source],
            unit,
            settings.read_rules,
            cuts=tokenizer.cuts if tokenizer else None,
            chunk_bytes=STRIDE_BYTES,
        )
        first = next(chunks, None)  # a compressed file is one unit: its beginning stands for it
        if first is None:
            continue
        chunk = cleaned(first, settings)
        texts = [text for text in chunk.texts if text]
        encoder = tokenizer or CharsTokenizer.learn(texts)
        tokens += len(encoder.encode_batch(texts)[0]) + len(texts)
        documents += len(texts)
        sampled += chunk.bytes_in
        hashes.append(_hashes(chunk, settings))
    seconds = time.perf_counter() - started
    total = sum(source.size for source in sources)
    scale = total / sampled if sampled else 0.0
    run = make_run(np.concatenate(hashes), np.zeros(sum(map(len, hashes)), np.uint32))
    duplicates = len(run.repeated) / max(1, len(run.repeated) + len(run.hashes))
    num_tokens = int(tokens * scale * (1 - duplicates))
    return Estimate(
        files=len(sources),
        bytes_in=total,
        bytes_sampled=sampled,
        documents=int(documents * scale),
        tokens=num_tokens,
        dtype=dtype,
        disk_bytes=num_tokens * np.dtype(dtype).itemsize,
        duplicates=duplicates,
        seconds=seconds * scale / workers,
        workers=workers,
    )


def _hashes(chunk: CleanChunk, settings: Settings) -> np.ndarray:
    if settings.dedup == "none":
        return np.empty(0, HASH)
    if settings.dedup == "documents":
        return hash_all(chunk.texts)
    return hash_all(compress(*lines_of(chunk, settings)))
