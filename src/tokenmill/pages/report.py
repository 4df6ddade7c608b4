"""`tokenmill view --save`: one HTML file that needs nothing else, not even a network.

No clock and no path is in it: the same data gives the same bytes. Numbers are exact for small data,
from a bounded, evenly spaced sample of large.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash

from tokenmill.base.human import plural
from tokenmill.base.markup import Html, join, tag
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.edits.usage import SourceUsage
from tokenmill.look import token_sample
from tokenmill.look.inspect import Inspection, Made, OpenedData, shown_setting
from tokenmill.look.token_sample import BLOCK_TOKENS, BUDGET, SplitSample
from tokenmill.pages import html, plots
from tokenmill.pages.find_documents import bounds_in, survey
from tokenmill.pages.funnel import funnel
from tokenmill.pages.health import health_list, health_mark, health_of
from tokenmill.pages.html import facts, note, pair, section, table
from tokenmill.version import __version__

TOP = 26
SAMPLES = 4
SAMPLE_TOKENS = 400  # of each
EQUAL_TOKENS = 12  # shown of a document that is there several times
MAX_HASHED = 50_000  # documents compared with each other
MAX_HASHED_TOKENS = 16 << 20
MOST_OFTEN = 5  # documents that are named, of those that are there several times
MAX_PARTS = 24  # shards with a line each
PARTS_TOKENS = 4 << 20  # decoded of all of them together
MAX_LENGTHS = 4 << 20
MAX_ID = 4 << 20  # ids from here on are no ids: files read with the wrong dtype have them

Repeated = list[tuple[int, TokenDataset, int, int]]
"""Equal documents: how often they are there, and the tokens of the first."""


@dataclass(frozen=True)
class Counts:
    """Occurrences of each id in the sample."""

    by_id: np.ndarray
    looked_at: int
    num_tokens: int

    @property
    def sample(self) -> str | None:
        """The size of the sample; None if all tokens were looked at."""
        if self.looked_at == self.num_tokens:
            return None
        return f"{self.looked_at:,} of {self.num_tokens:,} tokens"

    @property
    def num_used(self) -> int:
        return int((self.by_id > 0).sum())


@takes_keywords_of(open_dataset, but=("split",))
def report(
    path: str, *, sample: int = BUDGET, usage: SourceUsage | None = None, **open_options: Any
) -> str:
    """The page about the token data at `path`; other keywords are those of `tokenmill.open`.

    `sample` tokens of each split are looked at. `usage` is the use of the data by a run
    (`loader.usage()`).
    """
    opened = OpenedData(path, **open_options)
    splits = opened.splits
    known = opened.known
    made = known.made
    name = opened.name
    counts = count_ids(splits, sample)
    used = counts.num_used
    size = known.tokenizer.vocab_size
    answers, looked_at = health_of(opened, sample)
    prints = ", ".join(f"{name} {split.fingerprint[:12]}" for name, split in known.splits.items())
    body = join(
        tag("h1", name),
        _lead(known),
        html.cards(
            *html.main_figures(known),
            ("vocabulary used", f"{used / size:.1%}" if size else f"{used:,} ids"),
            ("entropy, in bits", f"{token_sample.entropy(counts.by_id):.2f}"),
            ("health", health_mark(answers)),
        ),
        section("Health", health_list(answers)),
        funnel(made.accounts) if made else None,
        _lengths(splits, sample),
        pair(_top_tokens(opened, counts), _vocabulary(known, counts)),
        pair(_splits(known), _compression(splits, opened.tokenizer)),
        pair(_accounts(made), _repeated(opened, made)) if made else None,
        None if usage is None else pair(plots.shard_use(usage)),
        _samples(opened),
        tag(
            "footer",
            f"Made by tokenmill {__version__} from {counts.sample or 'all tokens'}; the checks "
            f"looked at {looked_at:,}. Fingerprints: {prints}.",
        ),
    )
    return html.offline_page(f"{name} - tokenmill report", body)


def _lead(known: Inspection) -> Html:
    name = known.tokenizer.name
    words = [f"{known.tokens:,} tokens"]
    if known.documents is not None:
        words.append(plural(known.documents, "document"))
    words.append(f"tokenizer {name}" if name else "tokenizer not named")
    words += [known.dtype, f"format {known.format}"]
    return tag("p", ", ".join(words), class_="lead")


def _sampled(what: str | None) -> Html | None:
    return note(f"From an evenly spaced sample: {what}.") if what else None


def lengths_of(
    splits: dict[str, TokenDataset], budget: int = BUDGET
) -> tuple[np.ndarray, bool] | None:
    """Lengths of documents, and True if of all; None if nothing says how documents end."""
    if not all(data.knows_documents for data in splits.values()):
        return None
    lengths = [np.empty(0, np.int64)]
    is_whole = True
    for data in splits.values():
        ranges = survey(data, max_documents=MAX_LENGTHS, max_tokens=budget)
        lengths += [np.diff(bounds) for bounds in bounds_in(data, ranges)]
        is_whole = is_whole and ranges == [(0, data.num_tokens)]
    return np.concatenate(lengths), is_whole


def _lengths(splits: dict[str, TokenDataset], sample: int) -> Html:
    values, is_whole = lengths_of(splits, sample) or (np.empty(0), True)
    if not len(values):
        words = "Nothing in this data says where documents end; name it with --end_of_text."
        return section("Document lengths", note(words))
    low, median, high = np.percentile(values, [5, 50, 95], method="nearest").astype(int).tolist()
    order = np.sort(values)[::-1]
    half = int(order[np.searchsorted(np.cumsum(order), order.sum() / 2)])
    figures = {
        "shortest": int(values.min()),
        "5 %": low,
        "median": median,
        "mean": round(float(values.mean())),
        "95 %": high,
        "longest": int(values.max()),
    }
    words = f"Half of all tokens are in documents of {half:,} tokens or more."
    numbers = table(tuple(figures), [tuple(figures.values())])
    sampled = _sampled(None if is_whole else f"{len(values):,} documents")
    plot = plots.length_bars(values)
    return section("Document lengths", plot, numbers, tag("p", words), sampled)


def count_ids(splits: dict[str, TokenDataset], budget: int = BUDGET) -> Counts:
    """Count each id, over all splits."""
    by_id = np.zeros(1, np.int64)
    looked_at = 0
    for name, data in splits.items():
        for _, ids in SplitSample(data, name, budget).blocks:
            looked_at += len(ids)
            # Ids beyond any vocabulary, or below 0, are reported by the checks.
            inside = ids[(ids >= 0) & (ids < MAX_ID)].astype(np.int64)
            more = np.bincount(inside, minlength=len(by_id))
            more[: len(by_id)] += by_id
            by_id = more
    return Counts(by_id, looked_at, sum(data.num_tokens for data in splits.values()))


def _top_tokens(opened: OpenedData, counts: Counts) -> Html:
    order = np.argsort(-counts.by_id, kind="stable")[:TOP]
    order = order[counts.by_id[order] > 0]
    data = next(iter(opened.splits.values()))
    rows = []
    for number, amount in zip(order, counts.by_id[order].tolist(), strict=True):
        # One at a time: what is before a token must not change how it is shown.
        (token,) = opened.shown(data, np.array([number]))
        share = amount / max(1, counts.looked_at)
        rows.append(
            (html.inline(token, place=token.id), float(amount), f"{amount:,} ({share:.2%})")
        )
    total = sum(amount for _, amount, _ in rows) / max(1, counts.looked_at)
    words = f"The {len(rows)} most frequent tokens are {total:.0%} of the data."
    sampled = _sampled(counts.sample)
    return section("Top tokens", plots.bars(rows), note(words), sampled)


def _vocabulary(known: Inspection, counts: Counts) -> Html:
    size = known.tokenizer.vocab_size
    once = int((counts.by_id == 1).sum())
    parts: list[object] = []
    if size:
        by_id = np.pad(counts.by_id[:size], (0, max(0, size - len(counts.by_id))))
        within = int((by_id > 0).sum())
        words = f"{within:,} of {size:,} ids occur ({within / size:.1%})"
        parts += [
            plots.meter(within / size, words),
            plots.vocabulary_map(by_id, size),
            note("Each cell is some neighbouring ids, in full colour where all occur."),
        ]
    else:
        words = f"{counts.num_used:,} different ids; the size of the vocabulary is not known."
        parts.append(tag("p", words))
    parts += [
        tag("h2", "Occurrences by rank"),
        plots.rank_frequency(counts.by_id),
        note(f"{plural(once, 'id')} came once only. Both axes are logarithmic."),
        _sampled(counts.sample),
    ]
    return section("Vocabulary", *parts)


def _splits(known: Inspection) -> Html:
    rows: list[tuple[object, ...]] = [
        (name, split.tokens, "-" if split.documents is None else split.documents, split.shards)
        for name, split in known.splits.items()
    ]
    named = asdict(known.tokenizer).items()
    tokenizer = {f"tokenizer {key}": value for key, value in named if value is not None}
    counts = table(("split", "tokens", "documents", "shards"), rows)
    return section("Splits", counts, facts(tokenizer | known.other_details()))


def compression(splits: dict[str, TokenDataset], tokenizer: Any) -> list[tuple[str, int, int]]:
    """(file, bytes of text, tokens) of each shard, or of evenly spaced ones."""
    shards = [(data, shard) for data in splits.values() for shard in data.shards]
    chosen = token_sample.spread(MAX_PARTS, len(shards))
    budget = max(BLOCK_TOKENS, PARTS_TOKENS // max(1, len(chosen)))
    parts = []
    for data, shard in (shards[number] for number in chosen):
        stop = shard.start + shard.num_tokens
        ranges = token_sample.ranges_within(budget, BLOCK_TOKENS, shard.start, stop)
        try:
            size = token_sample.text_size(data, ranges, tokenizer)
        except (ValueError, IndexError, OverflowError):
            size = (0, 0)  # ids beyond the vocabulary: the checks report them
        parts.append((shard.file, *size))
    return parts


def _compression(splits: dict[str, TokenDataset], tokenizer: Any) -> Html:
    if tokenizer is None:
        return section("Bytes a token", note("Not known without the tokenizer."))
    shards = compression(splits, tokenizer)
    rows = []
    for name, num_bytes, num_tokens in shards:
        ratio = num_bytes / num_tokens if num_tokens else 0.0
        rows.append((tag("span", name, class_="place"), ratio, f"{ratio:.2f}"))
    sampled = sum(num_tokens for _, _, num_tokens in shards)
    words = f"Bytes of decoded text by token, from {sampled:,} tokens."
    total = sum(len(data.shards) for data in splits.values())
    if len(shards) < total:
        words += f" {len(shards):,} of {total:,} shards, evenly spaced."
    return section("Bytes a token, by shard", plots.bars(rows), note(words))


def _accounts(made: Made) -> Html:
    rows: dict[str, object] = {}
    for name, value in made.accounts.items():
        if isinstance(value, dict):
            rows |= {f"{name}: {reason}": shown_setting(n) for reason, n in value.items()}
        else:
            rows[name] = shown_setting(value)
    rows["source files"] = made.sources
    settings = {name: shown_setting(value) for name, value in made.settings.items()}
    more = tag("details", tag("summary", "Settings"), facts(settings))
    return section("Accounts", facts(rows), more)


def repeated_documents(splits: dict[str, TokenDataset]) -> tuple[int, int, Repeated] | None:
    """Compare documents with each other; evenly spaced ones of large data.

    (documents that equal an earlier one, documents compared, those that are there most often).
    """
    if not all(data.knows_documents for data in splits.values()):
        return None
    limits = {"max_documents": MAX_HASHED, "max_tokens": MAX_HASHED_TOKENS}
    documents = (
        (data, start, stop)
        for data in splits.values()
        for bounds in bounds_in(data, survey(data, **limits))
        for start, stop in pairwise(bounds.tolist())
    )
    seen: dict[bytes, list[Any]] = {}
    compared = tokens = 0
    for data, start, stop in documents:
        tokens += stop - start
        if tokens > MAX_HASHED_TOKENS or compared >= MAX_HASHED:
            break
        digest = xxhash.xxh3_128_digest(data.tokens(start, stop).data)
        seen.setdefault(digest, [0, data, start, stop])[0] += 1
        compared += 1
    several = [tuple(found) for found in seen.values() if found[0] > 1]
    several.sort(key=lambda found: -found[0])
    return compared - len(seen), compared, several[:MOST_OFTEN]


def _repeated(opened: OpenedData, made: Made) -> Html:
    parts: list[object] = []
    if "dropped" in made.accounts:
        many = sum(n for reason, n in made.accounts["dropped"].items() if "duplicate" in reason)
        read = made.accounts["documents_in"]
        words = f"{many:,} of {read:,} documents dropped as duplicates"
        parts.append(plots.meter(many / max(1, read), words))
    if "lines_dropped" in made.accounts:
        parts.append(tag("p", f"{made.accounts['lines_dropped']:,} repeated lines dropped."))
    found = repeated_documents(opened.splits)
    if found is not None:
        repeated, compared, most_often = found
        words = f"{repeated:,} of {compared:,} documents compared are equal to an earlier one"
        parts.append(tag("p", f"{words}, token for token."))
        if repeated:
            parts += _why_repeated(opened, most_often, made)
    return section("Duplicates", *parts)


def _why_repeated(opened: OpenedData, most_often: Repeated, made: Made) -> Iterator[Html]:
    """The reason why equal documents are in the data, and those that are there most often."""
    shortest = made.settings.get("dedup_min_chars", 16)
    why = {
        "none": "They were kept: nothing was compared when the dataset was made.",
        "lines": "They were kept: --dedup lines compares lines, not documents, and a line of "
        f"fewer than {shortest} characters is never a duplicate. These consist of such lines. "
        "--dedup documents drops them.",
        "documents": "Duplicates were dropped when the dataset was made; these are parts of "
        "documents that were cut, or were written in another way.",
    }.get(made.settings.get("dedup", ""))
    if why:
        yield note(why)
    rows: list[tuple[object, ...]] = []
    for times, data, start, stop in most_often:
        ids = data.tokens(start, min(stop, start + EQUAL_TOKENS))
        shown = tag("span", html.preview(opened.shown(data, ids)), class_="preview")
        rows.append((times, stop - start, shown))
    yield table(("times", "tokens", "begins"), rows)


def _samples(opened: OpenedData) -> Html:
    name, data = next(iter(opened.splits.items()))
    ranges = list(SplitSample(data, name).documents(SAMPLES + 1, least=40))[:SAMPLES]
    if not ranges and data.num_tokens:
        ranges = token_sample.spread_ranges(SAMPLES, SAMPLE_TOKENS, 0, data.num_tokens)
    parts = []
    for start, stop in ranges:
        shown = min(stop, start + SAMPLE_TOKENS)
        tokens = opened.shown(data, data.tokens(start, shown))
        rest = f"; {stop - shown:,} more" if shown < stop else ""
        words = note(f"{name}, tokens {start:,} to {stop:,}{rest}")
        parts.append(tag("div", words, html.coloured(tokens), class_="sample"))
    return tag("section", tag("h2", "Samples"), *parts)
