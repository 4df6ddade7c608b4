"""Learn merges from counted words: the most frequent pair becomes a token, again and again.

The rule and the ids are in tokenizers.md. Overlapping pairs all count (`aaa` holds two of
`aa`) and are merged from the left, as by the package `tokenizers`.

All words are in one array of symbols. A pair can only come to be where one of its two symbols is
made, so its places are listed once, and its count only falls from then on. A count in the queue is
thus never too low: the pair at the front is counted again, and queued again if it lost places. The
pairs that a merge makes are kept as sorted arrays, of which only the first one is in the queue.
"""

import heapq
import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokenmill.tokens.split_patterns import ONE_EXPRESSION
from tokenmill.tokens.tokenizer_json import byte_letters, with_splits

BYTE_ORDER = tuple(byte_letters().values())
_WITHOUT_TOKENS = Path(__file__).parent / "data" / "without_tokens.json"
LEAST_COUNT = 2  # a pair that occurs once is not a pattern
_BLOCK = 4 << 20  # symbols that are sorted at a time

Array = npt.NDArray[Any]


class Merge(NamedTuple):
    """One step: these two ids become the next one; they were neighbours `times` times."""

    left: int
    right: int
    times: int


class NewPairs(NamedTuple):
    """Pairs that came to be in one step, the most frequent first.

    `places[start[i] : stop[i]]` are the places of pair i. The first five arrays are (pairs,).
    """

    left: Array
    right: Array
    times: Array
    start: Array
    stop: Array
    places: Array


class Queued(NamedTuple):
    """A pair in the queue: how often it occurs at most, negative so that the smallest is first."""

    minus_times: int
    left: int
    right: int
    places: Array
    """Places of its left symbol, in ascending order."""
    made_with: NewPairs | None
    """The pairs after it, at `number` + 1, enter the queue when it leaves."""
    number: int


class MergeLearner:
    """The symbols of all words, and the queue of pairs.

    The words are in `text`, one after another; `lengths` and `counts` have an item for each.
    A symbol is at the place of its first byte; `span` has its length there and at its last byte,
    so that both its neighbours are found. After each word, and before the first, is the symbol
    `end`; so is what a merge leaves of its right symbol.
    """

    def __init__(self, text: bytes, lengths: Array, counts: Array, num_merges: int) -> None:
        self.end = 256 + num_merges
        size = len(text) + len(lengths) + 1
        begins = np.append(1, 1 + np.cumsum(lengths + 1))  # of each word, and of one after the last
        in_word = np.ones(size, bool)
        in_word[begins - 1] = False
        self.symbols = np.full(size, self.end, np.min_scalar_type(self.end))
        to_id = np.argsort(np.array(BYTE_ORDER)).astype(self.symbols.dtype)
        self.symbols[in_word] = to_id[np.frombuffer(text, np.uint8)]
        self.span = np.ones(size, np.min_scalar_type(max(256, int(lengths.max(initial=0)))))
        self.word = np.zeros(size, np.int32)
        self.word[begins[1:-1]] = 1
        np.cumsum(self.word, out=self.word)
        self.counts = np.asarray(counts, np.int64)
        self.queue: list[Queued] = []

    def run(self) -> Iterator[Merge]:
        """Yield `num_merges` steps in order; fewer where no pair is left that occurs twice."""
        self._enter(self._pairs_of_bytes(), 0)
        for new in range(256, self.end):
            if (found := self._most_frequent()) is None:
                return
            yield Merge(found.left, found.right, -found.minus_times)
            self._enter(self._merge(found, new), 0)

    def _most_frequent(self) -> Queued | None:
        while self.queue:
            found = heapq.heappop(self.queue)
            if found.made_with is not None:
                self._enter(found.made_with, found.number + 1)
            places = found.places[self.symbols[found.places] == found.left]
            places = places[self.symbols[places + self.span[places]] == found.right]
            count = int(self.counts[self.word[places]].sum())
            now = Queued(-count, found.left, found.right, places, None, 0)
            if now.minus_times == found.minus_times:
                return now
            if count >= LEAST_COUNT:
                heapq.heappush(self.queue, now)
        return None

    def _enter(self, pairs: NewPairs, number: int) -> None:
        if number < len(pairs.times):
            places = pairs.places[pairs.start[number] : pairs.stop[number]]
            left = int(pairs.left[number])
            right = int(pairs.right[number])
            times = int(pairs.times[number])
            heapq.heappush(self.queue, Queued(-times, left, right, places, pairs, number))

    def _merge(self, pair: Queued, new: int) -> NewPairs:
        symbols = self.symbols
        span = self.span
        places = pair.places
        if pair.left == pair.right:
            places = _every_other(places, places + span[places])
        second = places + span[places]
        after = second + span[second]
        symbols[second] = self.end
        symbols[places] = new
        span[places] = span[after - 1] = after - places
        before = places - span[places - 1]
        left = symbols[before].astype(np.int64)  # (places,), as all arrays up to here
        right = symbols[after].astype(np.int64)
        # Two new symbols side by side are one pair: that of the first with what is right of it.
        at_left = (left != self.end) & (left != new)
        at_right = right != self.end
        key = np.concatenate((left[at_left], right[at_right] + self.end))
        place = np.concatenate((before[at_left], places[at_right]))
        both = np.sort((key << 32) | place)  # by key, then by place
        key = both >> 32
        place = both & 0xFFFFFFFF
        start = np.flatnonzero(np.diff(key, prepend=-1))
        count = self._sums(place, start)
        key = key[start]
        is_left = key < self.end
        neighbour = np.where(is_left, key, key - self.end)
        made = np.full(len(key), new)
        return _sorted_pairs(
            np.where(is_left, neighbour, made),
            np.where(is_left, made, neighbour),
            count,
            start,
            place.astype(self.word.dtype),
        )

    def _pairs_of_bytes(self) -> NewPairs:
        """All pairs before the first merge; by counting sort, a block at a time."""
        blocks = range(0, len(self.symbols) - 1, _BLOCK)
        num_places = np.zeros(1 << 16, np.int64)
        for at in blocks:
            num_places += np.bincount(self._codes(at)[0], minlength=1 << 16)
        start = np.cumsum(num_places) - num_places
        places = np.empty(int(num_places.sum()), self.word.dtype)
        free = start.copy()
        count = np.zeros(1 << 16, np.int64)
        for at in blocks:
            code, place = self._codes(at)
            order = np.argsort(code, kind="stable")
            code = code[order]
            place = place[order]
            first = np.flatnonzero(np.diff(code.astype(np.int32), prepend=-1))
            sizes = np.diff(first, append=len(code))
            places[np.arange(len(code)) + np.repeat(free[code[first]] - first, sizes)] = place
            free[code[first]] += sizes
            count[code[first]] += self._sums(place, first)
        left, right = np.divmod(np.arange(1 << 16), 256)
        return _sorted_pairs(left, right, count, start, places)

    def _codes(self, at: int) -> tuple[Array, Array]:
        """The pairs of one block, each as one number, and their places."""
        right = self.symbols[at + 1 : at + _BLOCK + 1]
        left = self.symbols[at : at + len(right)]
        inside = (left != self.end) & (right != self.end)
        codes = left[inside].astype(np.uint16) << 8 | right[inside].astype(np.uint16)
        return codes, at + np.flatnonzero(inside)

    def _sums(self, place: Array, start: Array) -> Array:
        """Sum of the counts of the words at these places, from each start to the next."""
        weights = self.counts[self.word[place]]
        return np.add.reduceat(weights, start) if len(start) else weights


def _sorted_pairs(left: Array, right: Array, count: Array, start: Array, places: Array) -> NewPairs:
    """Pairs in the order in which they may be merged; rare ones and their places are left out."""
    stop = np.append(start[1:], len(places))[: len(start)]
    often = count >= LEAST_COUNT
    if not often.all():
        sizes = stop - start
        places = places[np.repeat(often, sizes)]
        left = left[often]
        right = right[often]
        count = count[often]
        stop = np.cumsum(sizes[often])
        start = stop - sizes[often]
    order = np.lexsort((right, left, -count))
    return NewPairs(left[order], right[order], count[order], start[order], stop[order], places)


def _every_other(places: Array, after: Array) -> Array:
    """Return the first, third and so on of overlapping pairs: `aaaa` is two of `aa`."""
    number = np.arange(len(places))
    begins = np.append(True, after[:-1] != places[1:])
    in_run = number - np.maximum.accumulate(np.where(begins, number, 0))
    chosen: Array = places[in_run % 2 == 0]
    return chosen


def byte_level_tree(
    vocab: dict[str, int], merges: list[list[str]], special_ids: dict[str, int]
) -> dict[str, Any]:
    """Return the `tokenizer.json` of these tokens, which splits a text as GPT-2 does."""
    tree: dict[str, Any] = json.loads(_WITHOUT_TOKENS.read_bytes())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tree["added_tokens"] = [
        {"id": number, "content": text, **flags, "special": True}
        for text, number in special_ids.items()
    ]
    tree["model"] |= {"vocab": vocab, "merges": merges}
    return tree


@dataclass(frozen=True)
class TrainedTokenizer:
    """Merges and special tokens of a trained tokenizer, and its files.

    Ids are the 256 bytes in GPT-2's order, the merges, then the special tokens.
    """

    pattern: str
    merges: Sequence[Merge]
    specials: Sequence[str]

    @property
    def vocab_size(self) -> int:
        return 256 + len(self.merges) + len(self.specials)

    @property
    def special_ids(self) -> dict[str, int]:
        first = 256 + len(self.merges)
        return {text: first + number for number, text in enumerate(self.specials)}

    def spellings(self) -> list[bytes]:
        """Bytes of every id but the special ones."""
        tokens = [bytes([byte]) for byte in BYTE_ORDER]
        for merge in self.merges:
            tokens.append(tokens[merge.left] + tokens[merge.right])
        return tokens

    def to_tiktoken(self) -> bytes:
        """Return one line per token: its bytes in base64, and its rank."""
        lines = (b64encode(token) + b" %d\n" % at for at, token in enumerate(self.spellings()))
        return b"".join(lines)

    def to_tokenizer_json(self) -> bytes:
        """Return the file that `tokenizers.Tokenizer.from_file` reads."""
        letters = {byte: letter for letter, byte in byte_letters().items()}
        tokens = ["".join(map(letters.__getitem__, token)) for token in self.spellings()]
        vocab = {token: number for number, token in enumerate(tokens)}
        merges = [[tokens[left], tokens[right]] for left, right, _ in self.merges]
        tree = byte_level_tree(vocab, merges, self.special_ids)
        if self.pattern != "gpt2":  # which ByteLevel has built in
            tree["pre_tokenizer"]["use_regex"] = False
            tree = with_splits(tree, (ONE_EXPRESSION.get(self.pattern, self.pattern),))
        return json.dumps(tree, ensure_ascii=False, indent=1).encode() + b"\n"
