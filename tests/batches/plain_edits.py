"""A run with edits as docs/order.md and docs/edits.md describe it: one sample after the other.

Slow and short: what `tokenmill.batches.edits` is compared with. There is no arithmetic that jumps
to a sample. A source is the list of windows that are left of its epoch, a stage is the list of the
sources that are left of its block, an edit changes these lists when its sample comes.
"""

import functools
from dataclasses import dataclass, field

from order.plain_order import WORD, keys_of, plain_deal, plain_epoch, plain_mix

from tokenmill import Add, Ban, Cap, Reweight, Skip


class RefusedError(Exception):
    """What the loader must refuse, too."""


@dataclass
class Grown:
    """More tokens in a source, from its next epoch on."""

    source: str
    num_tokens: int


@dataclass
class PlainSource:
    num_tokens: int
    seed: int
    order: object
    block_size: int
    phase: bool
    epoch: int = -1
    left: list[int] = field(default_factory=list)
    """The first tokens of the windows that are still to come in this epoch."""
    banned: set[int] = field(default_factory=set)
    grown: int | None = None

    def take(self):
        """The epoch and the first token of the next window, and its targets that are banned."""
        while not self.left:
            self.epoch += 1
            self.num_tokens, self.grown = self.grown or self.num_tokens, None
            self.left = self.allowed(self.windows(self.epoch))
        start = self.left.pop(0)
        targets = range(start + 1, start + self.block_size + 1)
        return self.epoch, start, [target in self.banned for target in targets]

    def windows(self, epoch):
        how = (self.order, self.grown or self.num_tokens, self.block_size, self.seed)
        return plain_epoch(*how, epoch, self.phase)

    def allowed(self, starts):
        """Without the windows in which all targets are banned."""
        size = self.block_size
        return [s for s in starts if not self.banned.issuperset(range(s + 1, s + size + 1))]

    def ban(self, tokens):
        self.banned |= set(tokens)
        self.left = self.allowed(self.left)
        size = self.grown or self.num_tokens  # with a phase, a window may begin anywhere
        starts = range(size - self.block_size) if self.phase else self.windows(self.epoch + 1)
        if not self.allowed(starts):
            raise RefusedError("nothing is left")

    def epochs_had(self):
        return self.epoch + (not self.left)


dealt_in_all = functools.cache(plain_deal)


class PlainRun:
    """Serves the samples of a run, one after the other."""

    def __init__(self, sources, stages, *, seed, order, block_size, phase):
        """`sources`: tokens of each by name; `stages`: (place, parts), None for one dataset."""
        self.how = (order, block_size, phase)
        self.seed, self.names, self.is_alone = seed, list(sources), stages is None
        seeds = [seed] if stages is None else [self.seed_of(i) for i in range(len(sources))]
        pairs = zip(sources.values(), seeds, strict=True)
        self.sources = [PlainSource(n, own_seed, *self.how) for n, own_seed in pairs]
        self.wanted = stages or [(0, (1,))]
        self.caps, self.reached = {}, set()
        self.place, self.stage, self.begun_at = 0, 0, 0
        self.ended = self.is_beyond = False
        self.begin_stage()

    def seed_of(self, source):
        return keys_of(self.seed, 0, 6, source + 1)[0] >> 1

    def serve(self, edits, num_samples):
        """(source, epoch, first token, banned targets) of the first samples, fewer if it ends."""
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
        taken = (self.names[source], *self.sources[source].take())
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
                self.sources.append(PlainSource(len(data), seed, *self.how))
                self.wanted = [(start, (*parts, 0)) for start, parts in self.wanted]
                self.reweight(weights)
            case Ban(tokens=(start, stop), source=name):
                self.source_of(name).ban(range(start, stop))
                self.look_at_caps()
            case Grown(name, num_tokens):
                self.source_of(name).grown = num_tokens

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
