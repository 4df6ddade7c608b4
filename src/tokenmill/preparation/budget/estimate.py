"""What to expect of a preparation, from about one percent of its input. Nothing is written."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any, Unpack

import numpy as np

from tokenmill.base.human import human_bytes, plural
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.preparation.inputs import Inputs, as_list, search_inputs
from tokenmill.preparation.plan import choose_dtype, load_tokenizer
from tokenmill.preparation.settings import Settings, SettingsKeywords
from tokenmill.preparation.val_inputs import ValInput, held_out_inputs
from tokenmill.text.cleaning.clean_chunks import CleanChunk, clean_chunk, lines_to_compare
from tokenmill.text.cleaning.dedup import hash_all
from tokenmill.text.cleaning.line_work import without_lines
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit, cut_into_units
from tokenmill.text.reading.chunks import Chunk, Edge
from tokenmill.text.reading.read import read_unit
from tokenmill.tokens.bytes_and_chars import CharsTokenizer
from tokenmill.tokens.tokenizer import Tokenizer

SHARE = 0.01
STRIDE_BYTES = 256 << 10  # read so much here and there, rather than one stretch
FEWEST, MOST = 16, 1024  # pieces read: all of a small input, 256 MB of a large one
WHOLE_FILE_BYTES = 4 << 20  # read so much of a file that can only be read from its start


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
    compress: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        return "\n".join(
            [
                f"input       {plural(self.files, 'file')}, {human_bytes(self.bytes_in)} "
                f"(read {human_bytes(self.bytes_sampled)} of it)",
                f"tokens      about {self.tokens:,}, {self.dtype}",
                f"disk        about {human_bytes(self.disk_bytes)}, twice that while it is made"
                + (", before compression" if self.compress else ""),
                f"duplicates  at least {self.duplicates:.1%} (repeated within what was read)",
                f"time        about {self.seconds:,.0f} s with {self.workers} workers",
            ]
        )


@takes_keywords_of(Settings)
def estimate(
    inputs: Inputs,
    *,
    val_input: ValInput | None = None,
    workers: int | None = None,
    **settings: Unpack[SettingsKeywords],
) -> Estimate:
    """Read pieces spread over all inputs, clean and encode them, and scale up."""
    wanted, held_out, asked = as_list(inputs), held_out_inputs(val_input), Settings(**settings)
    if any("-" in entries for entries in (wanted, *held_out.values())):
        raise ValueError("standard input can be read only once, so it cannot be estimated first")
    sources, _ = search_inputs(wanted, asked, held_out)
    tokenizer = load_tokenizer(asked)
    dtype = choose_dtype(tokenizer, asked.dtype).name if tokenizer else "uint16"
    workers = workers or len(os.sched_getaffinity(0))
    sample = _Sample(asked, tokenizer)
    started = time.perf_counter()
    units = cut_into_units(sources, STRIDE_BYTES)
    # About one in a hundred, evenly, but neither too few nor too many.
    wanted_units = min(max(FEWEST, round(len(units) * SHARE)), MOST)
    for unit in units[:: max(1, len(units) // wanted_units)]:
        sample.read(sources[unit.source], unit)
    seconds = time.perf_counter() - started
    total, sampled = sum(source.size for source in sources), sum(sample.bytes_in.values())
    num_tokens = sample.scaled(sample.tokens, sources)
    return Estimate(
        files=len(sources),
        bytes_in=total,
        bytes_sampled=sampled,
        documents=sample.scaled(sample.documents, sources),
        tokens=num_tokens,
        dtype=dtype,
        disk_bytes=num_tokens * np.dtype(dtype).itemsize,
        duplicates=sample.repeated / max(1, sample.compared),
        seconds=seconds * (total / sampled if sampled else 0.0) / workers,
        workers=workers,
        compress=asked.compress,
    )


class _Sample:
    """What the pieces read so far came to, by kind of file: some hold denser text than others."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer | None) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        self.bytes_in: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.documents: Counter[str] = Counter()
        self.repeated = self.compared = 0
        self._long_line = settings.long_line if settings.dedup == "lines" else None
        self._seen: set[tuple[int, int]] = set()
        if tokenizer is not None:
            tokenizer.encode_batch([b"Loading takes the same time whatever the input."])

    def read(self, source: Source, unit: Unit) -> None:
        """Take one unit in; of a file that is one unit, its beginning."""
        kind = _kind(source)
        for chunk in self._chunks(source, unit):
            clean = clean_chunk(chunk, normalize=self.settings.normalize, long_line=self._long_line)
            texts = [text for text in self._first_seen(clean) if text]
            encoder = self.tokenizer or CharsTokenizer.learn(texts)
            begun = len(texts) - (chunk.continues is not Edge.NONE and bool(texts))
            self.tokens[kind] += len(encoder.encode_batch(texts)[0]) + begun
            self.documents[kind] += begun
            self.bytes_in[kind] += chunk.bytes_in

    def scaled(self, found: Counter[str], sources: list[Source]) -> int:
        size: Counter[str] = Counter()
        for source in sources:
            size[_kind(source)] += source.size
        return round(sum(found[k] * size[k] / n for k, n in self.bytes_in.items() if n))

    def _chunks(self, source: Source, unit: Unit) -> Iterator[Chunk]:
        cuts = self.tokenizer.cuts if self.tokenizer else None
        read, enough = 0, WHOLE_FILE_BYTES if source.compression else 2 * STRIDE_BYTES
        for chunk in read_unit(
            source, unit, self.settings.read_rules, cuts=cuts, chunk_bytes=STRIDE_BYTES
        ):
            yield chunk
            read += chunk.bytes_in
            if read >= enough:
                return

    def _first_seen(self, chunk: CleanChunk) -> list[bytes]:
        """The texts without what the sample had before."""
        if self.settings.dedup == "none":
            return chunk.texts
        if self.settings.dedup == "documents":
            return list(compress(chunk.texts, self._are_new(chunk.texts)))
        lines, counts = lines_to_compare(
            chunk, min_chars=self.settings.dedup_min_chars, long_line=self.settings.long_line
        )
        repeated = ~np.array(self._are_new(list(compress(lines.all(), counts))), np.bool_)
        return without_lines(lines, np.flatnonzero(counts)[repeated])

    def _are_new(self, texts: list[bytes]) -> list[bool]:
        new = []
        for digest in hash_all(texts).tolist():
            new.append(digest not in self._seen)
            self._seen.add(digest)
        self.compared += len(new)
        self.repeated += len(new) - sum(new)
        return new


def _kind(source: Source) -> str:
    return f"{source.kind} {source.compression}"
