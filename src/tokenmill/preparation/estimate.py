"""Expected size and time of a preparation, from about one percent of its input."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from tokenmill.base.human import human_bytes, plural
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.base.system import num_cores
from tokenmill.preparation.planning.inputs import Inputs, ValInput, as_list, is_file, search_inputs
from tokenmill.preparation.planning.limits import BEST_OF_SHARDS
from tokenmill.preparation.planning.plan import Plan, choose_dtype, load_tokenizer
from tokenmill.preparation.planning.settings import (
    APART,
    Chat,
    Details,
    Settings,
    SettingsKeywords,
    all_given,
)
from tokenmill.preparation.planning.val_inputs import held_out_inputs
from tokenmill.preparation.stages.parts import ROW
from tokenmill.text.cleaning.clean_chunks import CleanChunk, clean_chunk, lines_to_compare
from tokenmill.text.cleaning.dedup import hash_all
from tokenmill.text.cleaning.line_work import hash_selected, without_lines
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit, cut_into_units, worth_unpacking
from tokenmill.text.reading.chunks import Chunk, Edge
from tokenmill.text.reading.read import read_unit
from tokenmill.tokens.bytes_and_chars import CharsTokenizer
from tokenmill.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.preparation.estimate_rules import RuleEstimate

SHARE = 0.01
HASH_BYTES = 24  # of a line or document that is compared
END_BYTES = 8  # of a document in the .ends file of its shard
STRIDE_BYTES = 256 << 10  # read so much here and there, rather than one stretch
FEWEST = 16  # pieces read: all of a small input
MOST = 1024  # 256 MB of a large one
WHOLE_FILE_BYTES = 4 << 20  # read so much of a file that can only be read from its start
SURE = 0.9  # of what a sample says
UNPACKED_OF_TEXT = 1.1  # what cleaning removes, and what JSON adds


@dataclass(frozen=True)
class Estimate:
    """Expected numbers; `duplicates` is the share of lines or documents repeated in the sample.

    What is repeated further apart is not in the sample: then there are fewer tokens.
    """

    files: int
    bytes_in: int
    bytes_sampled: int
    documents: int
    tokens: int
    dtype: str
    disk_bytes: int
    """Size of the dataset."""
    peak_bytes: int
    """The most that is on the disk while it is made."""
    duplicates: float
    seconds: float
    workers: int
    compress: str | None = None
    rules: "list[RuleEstimate]" = field(default_factory=list)
    """What each rule would do to the documents that were read, had it been the only one."""
    notes: list[str] = field(default_factory=list)
    """What is not in these numbers."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        return "\n".join(
            [
                f"input       {plural(self.files, 'file')}, {human_bytes(self.bytes_in)} "
                f"(read {human_bytes(self.bytes_sampled)} of it)",
                f"tokens      about {self.tokens:,}, {self.dtype}",
                f"disk        about {human_bytes(self.disk_bytes)}, "
                f"and {human_bytes(self.peak_bytes)} at most while it is made"
                + (", before compression" if self.compress else ""),
                f"duplicates  at least {self.duplicates:.1%} (repeated within what was read; "
                "with more, there are fewer tokens)",
                f"time        about {self.seconds:,.0f} s with {plural(self.workers, 'worker')}",
                *(line for rule in self.rules for line in rule.lines()),
                *self.notes,
            ]
        )


@takes_keywords_of(Settings, but=APART)
def estimate(
    inputs: Inputs,
    *,
    val_input: ValInput | None = None,
    workers: int | None = None,
    chat: Chat | None = None,
    details: Details = Details(),
    **settings: Unpack[SettingsKeywords],
) -> Estimate:
    """Read pieces spread over all inputs, clean and encode them, and scale up."""
    asked = Settings(**all_given(settings, details, chat))
    if asked.chat:
        raise ValueError("conversations cannot be estimated; prepare one of their files, and look")
    wanted = as_list(inputs)
    held_out = held_out_inputs(val_input)
    if not all(is_file(entry) for entries in (wanted, *held_out.values()) for entry in entries):
        what = "standard input, or texts in memory, may be read only once"
        raise ValueError(f"{what}, so they cannot be estimated first")
    sources, _ = search_inputs(wanted, asked, held_out)
    tokenizer = load_tokenizer(asked)
    workers = workers or num_cores()
    sample = _Sample(asked, tokenizer)
    started = time.perf_counter()
    sample.read_some(sources)
    seconds = time.perf_counter() - started
    bytes_in = sum(source.size for source in sources)
    bytes_sampled = sum(counts["bytes_in"] for counts in sample.by_kind.values())
    expected = sample.expected(sources)
    disk_bytes = sample.shard_bytes(expected)
    return Estimate(
        files=len(sources),
        bytes_in=bytes_in,
        bytes_sampled=bytes_sampled,
        documents=expected["documents"],
        tokens=expected["tokens"],
        dtype=sample.dtype.name,
        disk_bytes=disk_bytes,
        peak_bytes=sample.peak(sources, disk_bytes),
        duplicates=sample.repeated / max(1, sample.compared),
        seconds=seconds * bytes_in / max(1, bytes_sampled) / workers,
        workers=workers,
        compress=asked.compress,
        rules=sample.rules,
        notes=_not_estimated(asked),
    )


def _not_estimated(settings: Settings) -> list[str]:
    late = {"near-duplicates": settings.dedup == "near", "test items": settings.decontaminate}
    known_late = [what for what, is_asked in late.items() if is_asked]
    return [f"{what} are found when all documents were read: not estimated" for what in known_late]


def least_room(plan: Plan, tokenizer: Tokenizer | None) -> int:
    """Return the bytes without which a preparation cannot end, by a small sample, rather too few.

    Text is unpacked, or kept for a second pass, only where there is room for it.
    """
    sample = _Sample(plan.settings, tokenizer)
    sample.read_some(plan.sources, FEWEST)
    expected = sample.expected(plan.sources)
    shards = sample.shard_bytes(expected)
    if plan.destination is not None:
        shards = 0  # uploaded, and removed here
    elif plan.settings.compress is not None:
        shards = round(BEST_OF_SHARDS * shards)
    return round(SURE * (sample.work_bytes(expected) + shards))


class _Sample:
    """The pieces read so far, counted by kind of file: some hold denser text than others."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer | None) -> None:
        self.settings = settings
        self.tokenizer = tokenizer
        self.dtype = choose_dtype(tokenizer, settings.dtype) if tokenizer else np.dtype("uint16")
        self.by_kind = defaultdict[str, Counter[str]](Counter)
        self.repeated = 0
        self.compared = 0
        self._long_line = settings.long_line if settings.dedup == "lines" else None
        self._seen: set[tuple[int, int]] = set()
        self.rules: list[RuleEstimate] = []
        if tokenizer is not None:
            tokenizer.encode_batch([b"Loading takes the same time whatever the input."])

    def read_some(self, sources: Sequence[Source], most: int = MOST) -> None:
        """Read about one piece in a hundred, evenly, but neither too few nor too many."""
        units = cut_into_units(sources, STRIDE_BYTES)
        wanted = min(max(FEWEST, round(len(units) * SHARE)), most)
        for unit in units[:: max(1, len(units) // wanted)]:
            self.read(sources[unit.source], unit)

    def read(self, source: Source, unit: Unit) -> None:
        """Read one unit; of a file that is one unit, its beginning."""
        counts = self.by_kind[_kind(source)]
        for chunk in self._chunks(source, unit):
            normalize = self.settings.clean and not self.settings.has_rules
            clean = clean_chunk(chunk, normalize=normalize, long_line=self._long_line)
            compared = self.compared
            texts, are_new = self._first_seen(clean)
            encoder = self.tokenizer or CharsTokenizer.learn(texts)
            continues = chunk.continues is not Edge.NONE and bool(texts)
            lengths = np.diff(encoder.encode_batch(texts)[1], prepend=0) + 1  # with end-of-text
            lengths[:continues] -= 1
            counts["tokens"] += int(lengths[are_new].sum())
            counts["encoded"] += int(lengths.sum())  # of repeated documents too
            counts["documents"] += int(are_new[continues:].sum())
            counts["text"] += len(clean.lines.whole)  # bytes after cleaning
            counts["hashes"] += self.compared - compared
            counts["bytes_in"] += chunk.bytes_in

    def expected(self, sources: Sequence[Source]) -> Counter[str]:
        """Scale the counts up to these files."""
        total = Counter[str]()
        for kind, counts in self.by_kind.items():
            size = sum(source.size for source in sources if _kind(source) == kind)
            for name, number in counts.items():
                total[name] += round(number * size / max(1, counts["bytes_in"]))
        return total

    def shard_bytes(self, expected: Counter[str]) -> int:
        return self.dtype.itemsize * expected["tokens"] + END_BYTES * expected["documents"]

    def work_bytes(self, expected: Counter[str]) -> int:
        """Return the bytes of all parts, and of the hashes that are compared."""
        parts = self.dtype.itemsize * expected["encoded"] + ROW.itemsize * expected["documents"]
        return parts + HASH_BYTES * expected["hashes"]

    def peak(self, sources: Sequence[Source], disk_bytes: int) -> int:
        """Return the most bytes on the disk: when units are encoded, or when all shards are there.

        Text that is kept for a second pass goes with its unit. Hashes and unpacked text stay.
        """
        expected = self.expected(sources)
        unpacked = self.expected([sources[number] for number in worth_unpacking(sources)])
        stays = round(UNPACKED_OF_TEXT * unpacked["text"])
        kept_text = expected["text"] if self.settings.dedup == "lines" else 0
        return stays + self.work_bytes(expected) + max(kept_text, disk_bytes)

    def _chunks(self, source: Source, unit: Unit) -> Iterator[Chunk]:
        cuts = self.tokenizer.cuts if self.tokenizer and not self.settings.has_rules else None
        rules = replace(self.settings.read_rules, cuts=cuts, chunk_bytes=STRIDE_BYTES)
        bytes_left = WHOLE_FILE_BYTES if source.compression else 2 * STRIDE_BYTES
        for chunk in read_unit(source, unit, rules):
            if self.settings.has_rules:
                from tokenmill.preparation.estimate_rules import judge

                yield judge(self.settings, source, chunk, self.rules)
            else:
                yield chunk
            bytes_left -= chunk.bytes_in
            if bytes_left <= 0:
                return

    def _first_seen(self, chunk: CleanChunk) -> tuple[list[bytes], np.ndarray]:
        """Return the texts to encode, without lines seen before, and which texts are new."""
        texts = list(filter(None, chunk.lines.texts))
        settings = self.settings
        if settings.dedup == "documents":
            return texts, self._are_new(hash_all(texts))
        if settings.dedup == "lines":
            counts = lines_to_compare(
                chunk, min_chars=settings.dedup_min_chars, long_line=settings.long_line
            )
            repeated = ~self._are_new(hash_selected(chunk.lines, counts))
            kept = without_lines(chunk.lines, np.flatnonzero(counts)[repeated])
            texts = list(filter(None, kept))
        return texts, np.ones(len(texts), np.bool_)

    def _are_new(self, hashes: np.ndarray) -> np.ndarray:
        new = []
        for digest in hashes.tolist():
            new.append(digest not in self._seen)
            self._seen.add(digest)
        self.compared += len(new)
        self.repeated += new.count(False)
        return np.array(new, np.bool_)


def _kind(source: Source) -> str:
    return f"{source.kind} {source.compression}"
