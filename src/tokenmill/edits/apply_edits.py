"""A run after its edits: one after the other, each changes the order from its sample on.

All that an edit does is said here, in numbers of the order: a skip is a jump of the sample numbers,
other weights are one more stage of the mixture, and so is a cap that is reached; a ban only masks
targets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill.batches.mixture import parts_of, refuse_different_tokenizers
from tokenmill.batches.run import Run, number_of
from tokenmill.edits.bans import BanMask, SourceBans, banned_by
from tokenmill.edits.edit_record import RecordedEdit
from tokenmill.edits.edit_values import Add, Ban, Cap, Grow, Reweight, Skip
from tokenmill.edits.edited_order import EditedOrder, GrownSource, Skips
from tokenmill.order.mixture_order import ENDLESS, Deal, MixtureOrder, MixtureStage
from tokenmill.order.order import Order, SourceOrder


class Editing:
    """The run after the edits so far. A place is a number in the order, before skips."""

    def __init__(self, run: Run, edits: Sequence[RecordedEdit] = ()) -> None:
        """Apply edits, which are in the order of their samples."""
        self.run = run
        self.names = list(run.names)
        self.datasets = list(run.datasets)
        self.sources: list[SourceOrder] = list(run.order.sources)
        self.bans: dict[int, SourceBans] = {}
        """The bans of each source that has some."""
        self.skips: list[tuple[int, int]] = []
        """The sample of each skip, and how many places it skips."""
        self.num_skipped = 0
        self.is_mixture = run.stages is not None
        stages = run.stages or [MixtureStage(0, (1,))]
        self.wanted = [(stage.start, stage.parts) for stage in stages]
        """All stages as they were asked for, without regard to caps."""
        self.num_begun = 0
        """How many of them have begun."""
        self.stages: list[MixtureStage] = []
        """The stages that have begun, with those of caps."""
        self.end = ENDLESS
        self.caps: dict[int, tuple[int, str]] = {}
        """Most epochs of each source that has a cap, and what comes then."""
        self.reached: set[int] = set()
        """The sources that have reached their cap."""
        self._begin_stage(0)
        for record in edits:
            self._apply(record)

    def _apply(self, record: RecordedEdit) -> None:
        """Apply one more edit, which is not before those so far."""
        place = record.at + self.num_skipped
        self._advance(place)
        if place > self.end:
            raise ValueError(
                f"the {record.edit.kind} is at sample {record.at:,}, but the order ends at sample "
                f"{Skips(self.skips).sample(self.end):,}"
            )
        match record.edit:
            case Skip(samples=(first, stop)):
                self.skips.append((first, stop - first))
                self.num_skipped += stop - first
            case Reweight(weights):
                self._reweight(weights, place)
            case Cap() as cap:
                self._cap(cap, place)
            case Add() as add:
                self._add(add, record.opened, place)
            case Ban(source=source):
                self._ban(record, number_of(source, self.names))
            case Grow(source):
                number = number_of(source, self.names)
                order = self.run.source_order(record.opened, number)
                index = self._deal.counts_before(place)[number]
                self.sources[number] = GrownSource(self.sources[number], index, order)
                self.datasets[number] = record.opened

    def finished(self) -> Run:
        """Return the run with all edits."""
        self._advance(ENDLESS - 1)
        order: Order = self.sources[0]
        if self.is_mixture:
            order = MixtureOrder(self.sources, self.stages, seed=self.run.settings.order.seed)
        end = None if self.end == ENDLESS else self.end
        return replace(
            self.run,
            names=tuple(self.names),
            datasets=tuple(self.datasets),
            stages=tuple(self.stages) if self.is_mixture else None,
            order=EditedOrder(order, Skips(self.skips), end, self.bans),
            bans=BanMask(self.bans) if self.bans else None,
        )

    # Stages

    @property
    def _deal(self) -> Deal:
        return Deal(self.stages, seed=self.run.settings.order.seed)

    def _advance(self, place: int) -> None:
        """Begin the stages up to a place: those of the schedule, and one where a cap is reached."""
        while self.end == ENDLESS:
            caps = self._coming_caps()
            scheduled = [start for start, _ in self.wanted[self.num_begun :][:1]]
            event = min([*caps.values(), *scheduled], default=ENDLESS)
            if event > place:
                return
            self.reached |= {source for source, at in caps.items() if at == event}
            self._begin_stage(event)

    def _coming_caps(self) -> dict[int, int]:
        """The place after the last sample of each source whose cap is still to be reached."""
        coming = {}
        for source in self.caps.keys() - self.reached:
            epochs, _ = self.caps[source]
            last = self.sources[source].first_of_epoch(epochs) - 1
            place = int(self._deal.samples_of(source, np.array([last]))[0])
            if place >= 0:
                coming[source] = place + 1
        return coming

    def _begin_stage(self, place: int) -> None:
        """Begin a stage with the weights in force, instead of one that began at this place."""
        if self.stages and self.stages[-1].start == place:
            self.stages.pop()
        while self.num_begun < len(self.wanted) and self.wanted[self.num_begun][0] <= place:
            self.num_begun += 1
        parts = self._allowed_parts()
        self.end = place if self._is_ended_by_cap() or not any(parts) else ENDLESS
        if not any(parts):
            return
        # Its blocks are dealt to where it is to end now; an edit may end it earlier.
        until = [start for start, _ in self.wanted[self.num_begun :][:1]]
        self.stages.append(MixtureStage(place, parts, *(until or [ENDLESS])))

    def _allowed_parts(self) -> tuple[int, ...]:
        """The parts in force, without those of sources that have reached their cap."""
        _, parts = self.wanted[self.num_begun - 1]
        return tuple(0 if source in self.reached else p for source, p in enumerate(parts))

    def _is_ended_by_cap(self) -> bool:
        return any(self.caps[source][1] == "end" for source in self.reached)

    # The kinds of edits

    def _reweight(self, weights: Mapping[str, Any], place: int) -> None:
        if not self.is_mixture:
            raise ValueError(
                f"weights are {dict(weights)}, but this run has one source, {self.names[0]!r}"
                "\n\nhint: Add(name, data, weights=...) makes it a mixture"
            )
        parts = parts_of(weights, self.names)
        while self.wanted and self.wanted[-1][0] >= place:
            self.wanted.pop()
        self.wanted.append((place, parts))
        self.num_begun = min(self.num_begun, len(self.wanted) - 1)
        self._begin_stage(place)

    def _cap(self, cap: Cap, place: int) -> None:
        before = self._allowed_parts()
        counts = self._deal.counts_before(place)
        for name, epochs in cap.epochs.items():
            source = number_of(name, self.names)
            self.caps.pop(source, None)
            self.reached.discard(source)
            if epochs is None:
                continue
            self.caps[source] = epochs, cap.then
            if counts[source] >= self.sources[source].first_of_epoch(epochs):
                self.reached.add(source)
        if self._allowed_parts() != before or self._is_ended_by_cap() or self.end == place:
            self._begin_stage(place)

    def _add(self, add: Add, data: Any, place: int) -> None:
        if add.name in self.names:
            raise ValueError(f"a source {add.name!r} is to be added, and there is one already")
        number = len(self.names)
        self.names.append(add.name)
        self.datasets.append(data)
        refuse_different_tokenizers(self.names, self.datasets)
        self.sources.append(self.run.source_order(data, number))
        self.wanted = [(start, (*parts, 0)) for start, parts in self.wanted]
        self.stages = [stage._replace(parts=(*stage.parts, 0)) for stage in self.stages]
        self.is_mixture = True
        self._reweight(add.weights, place)

    def _ban(self, record: RecordedEdit, number: int) -> None:
        data = self.datasets[number]
        bans = self.bans.get(number, SourceBans()).and_from(record.at, banned_by(record, data))
        # The first token of an axis is never a target.
        _, lows, highs = bans.tokens[-1].inside(np.array([1]), np.array([data.num_tokens]))
        if (highs - lows).sum() == data.num_tokens - 1:
            raise ValueError(
                f"the ban leaves nothing of {self.names[number]!r} to train on"
                "\n\nhint: in a mixture, a source of which nothing is wanted has the weight 0"
            )
        self.bans[number] = bans
