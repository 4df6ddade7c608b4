"""A run and its edits: one after the other, each changes the order from its sample on.

All that an edit does is said here, in numbers of the order: a skip is a jump of the sample numbers,
other weights are one more stage of the mixture, and so is a cap that is reached; a ban only masks
targets. One more edit costs the same however many there are, unless it is before one of them.
"""

import copy
import logging
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill.batches.mixture import parts_of, refuse_different_tokenizers
from tokenmill.batches.run import Run, number_of
from tokenmill.edits.bans import NOTHING, BanMask, Bans, SourceBans, banned_by
from tokenmill.edits.edit_record import RecordedEdit, edits_to_json, merge_edits
from tokenmill.edits.edit_values import Add, Ban, Cap, Grow, Reweight, Skip
from tokenmill.edits.edited_order import EditedOrder, GrownSource, Skips
from tokenmill.edits.named_files import with_files
from tokenmill.order.mixture_order import ENDLESS, DealtStage, MixtureOrder, MixtureStage
from tokenmill.order.order import Order

log = logging.getLogger("tokenmill")


class EditedRun:
    """The run as it began, its edits in the order of their samples, and what they make of it.

    A place is a number in the order, before skips. No value of a field is ever changed, only
    replaced: a copy has more edits, and shares the rest.
    """

    def __init__(self, base: Run, edits: Sequence[RecordedEdit] = ()) -> None:
        self.base = base
        self.edits: tuple[RecordedEdit, ...] = ()
        self.edits_json: tuple[dict[str, Any], ...] = ()
        """The list for a state."""
        self.now = base
        """The data and the order with all edits."""
        self._names = base.names
        self._datasets = base.datasets
        self._sources = tuple(base.order.sources)
        self._bans: Mapping[int, Bans] = {}  # of each source that has some
        self.skips: tuple[tuple[int, int], ...] = ()
        """The sample of each skip, and how many places it skips."""
        self._num_skipped = 0
        self._is_mixture = base.stages is not None
        self.wanted = base.stages or (MixtureStage(0, (1,)),)
        """All stages as they were asked for, without regard to caps."""
        self._num_begun = 0  # of these
        self._stages: tuple[DealtStage, ...] = ()  # that have begun, with those of caps
        self._end = ENDLESS
        self._caps: Mapping[int, tuple[int, str]] = {}
        """Most epochs of each source that has a cap, and what comes then."""
        self._reached: frozenset[int] = frozenset()
        """The sources that have reached their cap."""
        self._begin_stage(0)
        self._apply_all(edits)

    @property
    def fingerprint(self) -> str:
        last = self.edits_json[-1:]
        return str(last[0]["fingerprint"]) if last else self.base.order_fingerprint

    def with_edits(self, records: Sequence[RecordedEdit]) -> "EditedRun":
        more = merge_edits([with_files(record, {}) for record in records], ())
        if self.edits and more and more[0].at < self.edits[-1].at:
            return EditedRun(self.base, merge_edits(self.edits, more))
        run = copy.copy(self)
        run._apply_all(more)
        return run

    def warn_of_dropped(self, other: "EditedRun") -> None:
        """Log the edits of this run that another one, which is used instead, does not have."""
        kept = {record.identity for record in other.edits}
        for record in self.edits:
            if record.identity not in kept:
                log.warning(
                    "the state that is loaded does not have the %s at sample %d: it is dropped",
                    *(record.edit.kind, record.at),
                )

    def _apply_all(self, records: Sequence[RecordedEdit]) -> None:
        """Apply more edits, in the order of their samples and not before those so far."""
        for record in records:
            self._apply(record)
        self.edits += tuple(records)
        self.edits_json += tuple(edits_to_json(self.fingerprint, records))
        if self.edits:
            self.now = copy.copy(self)._finished()

    def _apply(self, record: RecordedEdit) -> None:
        place = record.at + self._num_skipped
        self._advance(place)
        if place > self._end:
            raise ValueError(
                f"the {record.edit.kind} is at sample {record.at:,}, but the order ends at sample "
                f"{Skips(self.skips).sample(self._end):,}"
            )
        match record.edit:
            case Skip(samples=(first, stop)):
                self.skips += ((first, stop - first),)
                self._num_skipped += stop - first
            case Reweight(weights):
                self._reweight(weights, place)
            case Cap() as cap:
                self._cap(cap, place)
            case Add() as add:
                self._add(add, record.opened, place)
            case Ban(source=source):
                number = number_of(source, self._names)
                more = banned_by(record, self._datasets[number])
                pairs = zip(self._bans.get(number, NOTHING), more, strict=True)
                starts, lows, highs = map(np.concatenate, pairs)
                self._bans = {**self._bans, number: (starts, lows, highs)}
            case Grow(source):
                number = number_of(source, self._names)
                order = self.base.source_order(record.opened, number)
                index = self._stages[-1].counts_before(place)[number]
                grown = GrownSource(self._sources[number], index, order)
                after = number + 1
                self._sources = (*self._sources[:number], grown, *self._sources[after:])
                self._datasets = (*self._datasets[:number], record.opened, *self._datasets[after:])

    def _finished(self) -> Run:
        """Return the run with all edits; nothing can be applied after it."""
        self._advance(ENDLESS - 1)
        bans = {number: SourceBans([those]) for number, those in self._bans.items()}
        for number, of_source in bans.items():
            if of_source.leave_nothing_of(self._datasets[number]):
                raise ValueError(
                    f"the ban leaves nothing of {self._names[number]!r} to train on"
                    "\n\nhint: in a mixture, a source of which nothing is wanted has the weight 0"
                )
        order: Order = self._sources[0]
        if self._is_mixture:
            order = MixtureOrder(self._sources, self._stages)
        end = None if self._end == ENDLESS else self._end
        return replace(
            self.base,
            names=self._names,
            datasets=self._datasets,
            stages=self.wanted if self._is_mixture else None,
            order=EditedOrder(order, Skips(self.skips), end, bans),
            bans=BanMask(bans) if bans else None,
        )

    # Stages

    def _advance(self, place: int) -> None:
        """Begin the stages up to a place: those of the schedule, and one where a cap is reached."""
        while self._end == ENDLESS:
            caps = self._coming_caps()
            event = min([*caps.values(), self._next_start()])
            if event > place:
                return
            self._reached |= {source for source, at in caps.items() if at == event}
            self._begin_stage(event)

    def _next_start(self) -> int:
        """The place where the schedule begins another stage."""
        return next((stage.start for stage in self.wanted[self._num_begun :]), ENDLESS)

    def _coming_caps(self) -> dict[int, int]:
        """The place after the last sample of each source whose cap is still to be reached."""
        coming = {}
        for source in self._caps.keys() - self._reached:
            epochs, _ = self._caps[source]
            last = self._sources[source].first_of_epoch(epochs) - 1
            place = int(self._stages[-1].samples_of(source, np.array([last]))[0])
            if place >= 0:
                coming[source] = place + 1
        return coming

    def _begin_stage(self, place: int) -> None:
        """Begin a stage with the weights in force, instead of one that began at this place."""
        while self._next_start() <= place:
            self._num_begun += 1
        parts = self._allowed_parts()
        self._end = place if self._is_ended_by_cap() or not any(parts) else ENDLESS
        before = self._stages[-1].counts_before(place) if self._stages else (0,) * len(parts)
        if self._stages and self._stages[-1].start == place:
            self._stages = self._stages[:-1]
        if any(parts):
            number = len(self._stages)
            seed = self.base.settings.order.seed
            dealt = DealtStage(place, parts, self._next_start(), number, before, seed)
            self._stages += (dealt,)

    def _allowed_parts(self) -> tuple[int, ...]:
        """The parts in force, without those of sources that have reached their cap."""
        parts = self.wanted[self._num_begun - 1].parts
        return tuple(0 if source in self._reached else p for source, p in enumerate(parts))

    def _is_ended_by_cap(self) -> bool:
        return any(self._caps[source][1] == "end" for source in self._reached)

    # The kinds of edits

    def _reweight(self, weights: Mapping[str, Any], place: int) -> None:
        if not self._is_mixture:
            raise ValueError(
                f"weights are {dict(weights)}, but this run has one source, {self._names[0]!r}"
                "\n\nhint: Add(name, data, weights=...) makes it a mixture"
            )
        stage = MixtureStage(place, parts_of(weights, self._names))
        before = bisect_left(self.wanted, place, key=lambda stage: stage.start)
        self.wanted = (*self.wanted[:before], stage)
        self._num_begun = before
        self._begin_stage(place)

    def _cap(self, cap: Cap, place: int) -> None:
        before = self._allowed_parts()
        counts = self._stages[-1].counts_before(place)
        caps = dict(self._caps)
        reached = set(self._reached)
        for name, epochs in cap.epochs.items():
            source = number_of(name, self._names)
            caps.pop(source, None)
            reached.discard(source)
            if epochs is None:
                continue
            caps[source] = epochs, cap.then
            if counts[source] >= self._sources[source].first_of_epoch(epochs):
                reached.add(source)
        self._caps = caps
        self._reached = frozenset(reached)
        if self._allowed_parts() != before or self._is_ended_by_cap() or self._end == place:
            self._begin_stage(place)

    def _add(self, add: Add, data: Any, place: int) -> None:
        if add.name in self._names:
            raise ValueError(f"a source {add.name!r} is to be added, and there is one already")
        number = len(self._names)
        self._names += (add.name,)
        self._datasets += (data,)
        refuse_different_tokenizers(self._names, self._datasets)
        self._sources += (self.base.source_order(data, number),)
        self.wanted = tuple(MixtureStage(start, (*parts, 0)) for start, parts in self.wanted)
        self._stages = tuple(
            replace(stage, parts=(*stage.parts, 0), before=(*stage.before, 0))
            for stage in self._stages
        )
        self._is_mixture = True
        self._reweight(add.weights, place)
