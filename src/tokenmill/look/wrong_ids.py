"""Ids that are not those of the text: bytes that are read wrongly, or of another tokenizer.

Nothing crashes, since most of the wrong ids are valid. A header in the middle of data means that
files were joined. uint32 read as uint16 doubles the count and makes every second token 0 (or
small); uint16 read as uint32 halves it and joins two ids into one that no vocabulary has.

A tokenizer gives one list of ids for a text: ids of another one decode to some text too, but
encoding that text again gives other ids in many places. Pairs of neighbours are compared: of right
ids all come back, of text encoded line by line 99 %, of GPT-2's ids in another numbering 86 to
93 %, of another vocabulary under 50 %.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from tokenmill.base.human import one_line
from tokenmill.errors import TokenmillError
from tokenmill.formats.not_tokens import (
    HEADER_MARKS,
    LARGEST_VOCABULARY,
    LEAST_TOKENS,
    known_head,
    tokens_per_id,
)
from tokenmill.look.token_sample import SplitSample, Trap, entropy, percent, spread_ranges

NUM_BLOCKS = 16
WRITE_AGAIN = "they were written big-endian: write them again little-endian (array.astype('{}'))"
LEAST_SAMPLE = 1000  # from which shares mean something
TOO_COMMON = 0.5  # share of one id; the space of character-level text has 0.18
NUM_PLACES = 64
TOKENS = 512  # at each place
LEAST_RUN = 16  # tokens between two ends of documents
LEAST_PAIRS = 400
AGREE = 0.97


def headers(sample: SplitSample) -> Iterator[Trap]:
    """Find headers at the start of each shard and in the sample."""
    data = sample.data
    seen = set()
    for i in sample.shards():
        file = data.files[i]
        if file.first or not file.num_tokens or not file.path:
            continue
        head = np.empty(min(64, file.num_tokens), data.dtype)
        data.read_into(i, 0, head)
        if (what := known_head(head.tobytes())) is not None:
            seen.add(int(data.shard_starts[i]))
            yield header_trap(file.path, head.tobytes(), data.dtype.itemsize, what)
    for position, first_bytes in _in_the_middle(sample):
        if position not in seen:
            what = known_head(first_bytes) or "unknown"
            where = f"{sample.split}, token {position:,}"
            yield header_trap(where, first_bytes, data.dtype.itemsize, what)
            return  # one is enough


def header_trap(where: str, first_bytes: bytes, itemsize: int, what: str) -> Trap:
    """The trap of a header with these first bytes."""
    first = np.frombuffer(first_bytes[: 6 * itemsize], f"<u{itemsize}").tolist()
    evidence = f"the header of a {what} file is where tokens should be: {first} ..."
    fix = "open the file without format=; if it was copied into other data, make that again"
    return Trap("header-as-tokens", where, evidence, fix)


def _in_the_middle(sample: SplitSample) -> Iterator[tuple[int, bytes]]:
    """Places in the sample where tokens spell the start of a header."""
    itemsize = sample.data.dtype.itemsize
    if itemsize not in (2, 4):
        return
    for start, ids in sample.blocks:
        raw = ids.tobytes()
        for mark in HEADER_MARKS:
            for hit in re.finditer(re.escape(mark), raw):
                if hit.start() % itemsize == 0:
                    first_bytes = raw[hit.start() : hit.start() + 64 * itemsize]
                    yield start + hit.start() // itemsize, first_bytes


def wrong_type(sample: SplitSample) -> Iterator[Trap]:
    """Yield the trap that most blocks of the sample show, with the tokens as they are read now."""
    said: dict[tuple[str, str], list[Trap]] = {}
    blocks = [ids for _, ids in sample.blocks if len(ids) >= LEAST_TOKENS]
    blocks = blocks[:: max(1, len(blocks) // NUM_BLOCKS)]
    for ids in blocks:
        # Each by itself: between two blocks the places of the halves of an id may change.
        found = _look(ids, sample)
        if found is not None:
            said.setdefault((found.name, found.fix), []).append(found)
    for findings in said.values():
        if 2 * len(findings) > len(blocks):
            yield findings[0]


def _look(ids: np.ndarray, sample: SplitSample) -> Trap | None:
    where = f"{sample.split} ({sample.data.dtype.name})"
    itemsize = ids.dtype.itemsize
    if ids.dtype.kind == "i" and (negative := int((ids < 0).sum())):
        share = percent(negative, len(ids))
        evidence = f"{share} of the ids are negative, down to {int(ids.min())}"
        fix = f'read them as unsigned: dtype="uint{8 * itemsize}"'
        return Trap("wrong-dtype", where, evidence, fix)
    if (group := tokens_per_id(ids)) > 1:
        first = ids[:8].tolist()
        evidence = f"{group - 1} of every {group} tokens are almost always below 16: {first} ..."
        fix = f'these are ids of {group * itemsize} bytes: dtype="uint{8 * group * itemsize}"'
        return Trap("wrong-dtype", where, evidence, fix)
    if itemsize > 2 and float((ids >= LARGEST_VOCABULARY).mean()) > 0.5:
        return _too_large(ids, where)
    if itemsize == 2:
        return _swapped(ids, where, sample.data.end_of_text_id)
    return None


def _too_large(ids: np.ndarray, where: str) -> Trap:
    large = percent(int((ids >= LARGEST_VOCABULARY).sum()), len(ids))
    evidence = f"{large} of the ids are above {LARGEST_VOCABULARY:,}: {ids[:4].tolist()} ...; "
    largest_reversed = int(ids.byteswap().max())
    if largest_reversed < LARGEST_VOCABULARY:
        evidence += f"with the bytes of each id reversed the largest is {largest_reversed:,}"
        return Trap("byte-order", where, evidence, WRITE_AGAIN.format("<u4"))
    half = ids.dtype.itemsize // 2
    evidence += f"read in halves they are {ids.view(f'<u{half}')[:8].tolist()} ..."
    fix = f'these are ids of {half} bytes: dtype="uint{8 * half}"'
    return Trap("wrong-dtype", where, evidence, fix)


def _swapped(ids: np.ndarray, where: str, end: int | None) -> Trap | None:
    """The high byte of an id says more about it than the low one, only when bytes are reversed.

    Frequent tokens have small ids, in every vocabulary made by counting, so the high bytes are few.
    """
    low = entropy(np.bincount(ids & 0xFF))
    high = entropy(np.bincount(ids >> 8))
    if high < low + 0.5:
        return None
    swapped = ids.byteswap()
    if end is not None and end < 1 << 16 and (swapped == end).sum() <= (ids == end).sum():
        return None
    examples = f"{ids[:4].tolist()} ...; reversed {swapped[:4].tolist()} ..."
    evidence = f"high bytes vary more ({high:.1f} bits) than low ones ({low:.1f} bits): {examples}"
    return Trap("byte-order", where, evidence, WRITE_AGAIN.format("<u2"))


def numbers(sample: SplitSample) -> Iterator[Trap]:
    """Look at the ids as numbers."""
    ids = sample.ids
    largest = int(ids.max(initial=0))
    limit = sample.data.vocab_size
    if limit is not None and largest >= limit:
        beyond = int((ids >= limit).sum())
        first = next(
            start + int((block >= limit).argmax())
            for start, block in sample.blocks
            if int(block.max(initial=0)) >= limit
        )
        place = f"the largest is {largest:,}, the first at token {first:,}"
        evidence = f"{beyond:,} of {len(ids):,} ids are {limit:,} or more: {place}"
        look = f"`tokenmill show tokens PATH {max(0, first - 8)}:{first + 8}`"
        fix = f"these ids are of another tokenizer, or the file is damaged there: look with {look}"
        yield Trap("ids-beyond-vocabulary", sample.split, evidence, fix)
    if len(ids) >= LEAST_SAMPLE:
        # An id that is more than half of all is the median.
        common = int(np.partition(ids, len(ids) // 2)[len(ids) // 2])
        count = int((ids == common).sum())
        if count / len(ids) > TOO_COMMON:
            evidence = f"{percent(count, len(ids))} of the tokens are id {common}"
            fix = "if it is the unknown token, prepare again with a tokenizer that knows the text"
            yield Trap("one-token", sample.split, evidence, fix)


def texts(sample: SplitSample) -> Iterator[Trap]:
    """Decode pieces spread over the split, encode them again, compare."""
    try:
        tokenizer = sample.tokenizer
    except (TokenmillError, ImportError) as error:
        fix = getattr(error, "hint", None) or "install the package that the tokenizer needs"
        evidence = str(error).splitlines()[0]
        yield Trap("wrong-tokenizer", sample.split, evidence, fix, is_fault=False)
        return
    if tokenizer is None:
        return
    runs = _runs(sample, tokenizer)
    decoded = [tokenizer.decode(run).decode("utf-8", "ignore").encode() for run in runs]
    ids, ends = tokenizer.encode_batch(decoded)
    again = [np.asarray(ids)[a:b].tolist() for a, b in pairwise([0, *ends])]
    kept = total = 0
    worst = 1.0
    shown = b""
    for run, text, back in zip(runs, decoded, again, strict=True):
        pairs = Counter(pairwise(run[2:-2].tolist()))  # the edges are those of cut words
        same = (pairs & Counter(pairwise(back))).total()
        kept += same
        total += pairs.total()
        if same / pairs.total() < worst:
            worst = same / pairs.total()
            shown = text[:60]
    if total >= LEAST_PAIRS and kept < AGREE * total:
        evidence = (
            f"{percent(total - kept, total)} of {total:,} pairs of ids change when their text is "
            f"encoded again with {tokenizer.name}; they decode to '{one_line(shown)}' ..."
        )
        fix = "name the tokenizer that made them with tokenizer=, or prepare the text again"
        yield Trap("wrong-tokenizer", sample.split, evidence, fix)


def _runs(sample: SplitSample, tokenizer: Any) -> list[np.ndarray]:
    """Runs of ids from places spread over the split, without anything special in them."""
    data = sample.data
    ranges = spread_ranges(NUM_PLACES, TOKENS, 0, data.num_tokens)
    windows = [data.tokens(start, stop).astype(np.int64) for start, stop in ranges]
    special = [tokenizer.end_of_text_id, *tokenizer.special_ids.values()]
    runs = []
    for window in windows:
        is_text = (window >= 0) & (window < tokenizer.vocab_size) & ~np.isin(window, special)
        for run in np.split(window, np.flatnonzero(~is_text)):
            if len(run) > LEAST_RUN:
                runs.append(run[1:])  # the first is the special one, or one of a cut word
    return runs
