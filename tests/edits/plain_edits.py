"""A run with edits as order.md and edits.md describe it: one sample after the other.

Slow and short: what `tokenmill.edits` is compared with. There is no arithmetic that jumps
to a sample. A source is the list of rows that are left of its epoch, a stage is the list of the
sources that are left of its block, an edit changes these lists when its sample comes.

A row is a list of pieces, and a piece is a list of tokens by their place on the axis: a window has
one piece, a row of documents one for each document in it.
"""

import functools
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from order.plain_order import WORD, keys_of, plain_deal, plain_epoch, plain_mix
from order.plain_packing import plain_row_epoch

from tokenmill.edits import Add, Ban, Cap, Reweight, Skip

END_OF_TEXT = 0
"""The last token of every document but the last one of an axis."""
BEGIN, PADDING = -1, -2
"""What is in a column that has no token of the axis."""


class RefusedError(Exception):
    """What the loader must refuse, too."""


class HowRowsAreMade(NamedTuple):
    kind: str
    order: object
    block_size: int
    phase: bool
    begin: bool


class Served(NamedTuple):
    """What is in the row of one sample."""

    source: str
    epoch: int
    columns: list[int]
    """The tokens of the row by their place on the axis."""
    losses: list[bool]
    """Whether each but the first of them is trained on."""


@dataclass
class Grown:
    """More tokens in a source, from its next epoch on."""

    source: str
    lengths: tuple[int, ...]


def documents_in(data):
    """The tokens of each document; the last one may have no end."""
    ends = np.flatnonzero(data.tokens(0, len(data) - 1) == END_OF_TEXT) + 1
    return tuple(np.diff(ends, prepend=0, append=len(data)).tolist())


def rows_of_epoch(how, lengths, seed, epoch):
    """All rows of one epoch in the order they come."""
    size = how.block_size
    if how.kind == "windows":
        starts = plain_epoch(how.order, sum(lengths), size, seed, epoch, how.phase)
        return [[list(range(start, start + size + 1))] for start in starts]
    rows = plain_row_epoch(how.kind, how.order, lengths, size, seed, epoch, how.begin)
    return [[piece_of(lengths, how, *piece) for piece in row] for row in rows]


def piece_of(lengths, how, document, j, length):
    start = sum(lengths[:document])
    tokens = [BEGIN] * how.begin + list(range(start, start + lengths[document]))
    return tokens[j * how.block_size :][:length]


@dataclass
class PlainSource:
    lengths: tuple[int, ...]
    seed: int
    how: HowRowsAreMade
    epoch: int = -1
    left: list = field(default_factory=list)
    """The rows that are still to come in this epoch."""
    banned: set[int] = field(default_factory=set)
    grown: tuple[int, ...] | None = None
    rows_of_epochs: list[int] = field(default_factory=list)
    """Rows in each epoch that has begun."""

    def take(self):
        """The epoch, the columns of the next row, and which of its targets are trained on."""
        while not self.left:
            self.epoch += 1
            self.lengths, self.grown = self.grown or self.lengths, None
            self.left = rows_of_epoch(self.how, self.lengths, self.seed, self.epoch)
            self.rows_of_epochs.append(len(self.left))
        columns, losses = [], []
        for piece in self.left.pop(0):
            losses += [False] + [token not in self.banned for token in piece[1:]]
            columns += piece
        padding = self.how.block_size + 1 - len(columns)
        return self.epoch, columns + [PADDING] * padding, losses[1:] + [False] * padding

    def ban(self, tokens):
        """Rows stay as they are; the first token of the axis is never a target."""
        self.banned |= set(tokens)
        if self.banned.issuperset(range(1, sum(self.grown or self.lengths))):
            raise RefusedError("nothing is left")

    def epochs_had(self):
        return self.epoch + (not self.left)


def tokens_of(ban, lengths):
    """The tokens that a ban means."""
    if ban.tokens is not None:
        return range(*ban.tokens)
    edges = list(pairwise(np.cumsum([0, *lengths]).tolist()))
    runs = [run if isinstance(run, tuple) else (run, run) for run in ban.documents]
    documents = [document for first, last in runs for document in range(first, last + 1)]
    return [token for document in documents for token in range(*edges[document])]


dealt_in_all = functools.cache(plain_deal)


class PlainRun:
    """Serves the samples of a run, one after the other."""

    def __init__(self, sources, stages, *, seed, how):
        """`sources`: documents of each by name; `stages`: (place, parts), None for one dataset."""
        self.how = how
        self.seed, self.names, self.is_alone = seed, list(sources), stages is None
        seeds = [seed] if stages is None else [self.seed_of(i) for i in range(len(sources))]
        pairs = zip(sources.values(), seeds, strict=True)
        self.sources = [PlainSource(lengths, own_seed, how) for lengths, own_seed in pairs]
        self.wanted = stages or [(0, (1,))]
        self.caps, self.reached = {}, set()
        self.place, self.stage, self.begun_at = 0, 0, 0
        self.ended = self.is_beyond = False
        self.begin_stage()

    def seed_of(self, source):
        return keys_of(self.seed, 0, 6, source + 1)[0] >> 1

    def serve(self, edits, num_samples):
        """The first samples, fewer if it ends."""
        edits = sorted(edits, key=lambda edit: edit[0])
        served = []
        while True:
            while edits and edits[0][0] == len(served):
                self.edit(edits.pop(0)[1])
            if len(served) == num_samples or self.ended:
                break
            served.append(self.take())
        if edits:
            raise RefusedError("an edit after the end")
        return served

    # One place of the order

    def take(self):
        source = self.next_source()
        taken = Served(self.names[source], *self.sources[source].take())
        self.place += 1
        self.look_at_caps()
        if not self.ended and any(start == self.place for start, _ in self.wanted):
            self.begin_stage()
        return taken

    def next_source(self):
        if not self.block:
            first = self.numbers
            numbers = range(first, min(first + 64, self.stage_length))
            keys = keys_of(self.seed, self.stage, 5)
            hashes = [plain_mix(plain_mix((n + keys[0]) & WORD) ^ keys[1]) for n in numbers]
            tickets = sorted((h >> 7, n) for h, n in zip(hashes, numbers, strict=True))
            dealt = dealt_in_all(self.parts, -(-(first + 64) // 512) * 512)
            self.block = [dealt[n][0] for _, n in tickets]
            self.numbers += 64
        return self.block.pop(0)

    # Stages and caps

    def begin_stage(self):
        """The stage that is asked for at this place, without sources that have reached a cap."""
        asked = [parts for start, parts in self.wanted if start <= self.place][-1]
        self.parts = tuple(0 if s in self.reached else part for s, part in enumerate(asked))
        if self.place > self.begun_at:
            self.stage += 1
        self.begun_at = self.place
        later = [start for start, _ in self.wanted if start > self.place]
        self.stage_length = min(later) - self.place if later else 10**9
        self.block, self.numbers = [], 0
        self.ended = self.is_over() or not any(self.parts)

    def is_over(self):
        return any(self.caps[source][1] == "end" for source in self.reached)

    def look_at_caps(self):
        for source, (epochs, _) in sorted(self.caps.items()):
            if source not in self.reached and self.sources[source].epochs_had() >= epochs:
                self.reached.add(source)
                self.begin_stage()

    # Edits

    def edit(self, edit):
        if self.is_beyond:
            raise RefusedError("an edit after the end")
        match edit:
            case Skip(samples=(first, stop)):
                for _ in range(stop - first):
                    if self.ended:
                        self.is_beyond = True
                    else:
                        self.take()
            case Reweight(weights):
                if self.is_alone:
                    raise RefusedError("one source has no weights")
                self.reweight(weights)
            case Cap(epochs, then):
                self.cap(epochs, then)
            case Add(name, data, weights):
                if name in self.names:
                    raise RefusedError(name)
                seed = self.seed_of(len(self.names))
                self.names.append(name)
                self.is_alone = False
                self.sources.append(PlainSource(documents_in(data), seed, self.how))
                self.wanted = [(start, (*parts, 0)) for start, parts in self.wanted]
                self.reweight(weights)
            case Ban(source=name) as ban:
                source = self.source_of(name)
                source.ban(tokens_of(ban, source.grown or source.lengths))
            case Grown(name, lengths):
                self.source_of(name).grown = lengths

    def source_of(self, name):
        return self.sources[0 if name is None else self.names.index(name)]

    def reweight(self, weights):
        if set(weights) != set(self.names):
            raise RefusedError(weights)
        self.wanted = [stage for stage in self.wanted if stage[0] < self.place]
        self.wanted.append((self.place, tuple(weights[name] for name in self.names)))
        self.begin_stage()

    def cap(self, epochs, then):
        before, was_over = self.reached.copy(), self.ended
        for name, number in epochs.items():
            source = self.names.index(name)
            self.caps.pop(source, None)
            self.reached.discard(source)
            if number is not None:
                self.caps[source] = number, then
                if self.sources[source].epochs_had() >= number:
                    self.reached.add(source)
        asked = [parts for start, parts in self.wanted if start <= self.place][-1]
        changed = {source for source in before ^ self.reached if asked[source]}
        if changed or was_over:
            self.begin_stage()
        self.ended = self.ended or self.is_over()
