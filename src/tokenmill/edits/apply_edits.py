"""A run after its edits: one after the other, each changes the order from its sample on.

All that an edit does is said here, in numbers of the order: a skip is a jump of the sample numbers,
other weights are one more stage of the mixture, and so is a cap that is reached; a ban only masks
targets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill.base.suggest import one_of
from tokenmill.batches.mixture import parts_of, refuse_different_tokenizers
from tokenmill.batches.run import Run
from tokenmill.edits.ban_mask import BanMask
from tokenmill.edits.edit_record import RecordedEdit
from tokenmill.edits.edit_values import Add, Ban, Cap, Grow, Reweight, Skip
from tokenmill.edits.edited_order import EditedOrder
from tokenmill.edits.find_banned import banned_by
from tokenmill.edits.grown_source import GrownSource
from tokenmill.edits.skips import Skips
from tokenmill.edits.source_bans import SourceBans
from tokenmill.order.mixture_order import ENDLESS, Deal, MixtureOrder, MixtureStage
from tokenmill.order.order import Order, SourceOrder


def apply_edits(run: Run, edits: Sequence[RecordedEdit]) -> Run:
    """Return the run after these edits, which are in the order of their samples."""
    if not edits:
        return run
    edited = _Editing(run)
    for record in edits:
        edited.apply(record)
    return edited.finished()


def stages_of(run: Run, edits: Sequence[RecordedEdit]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the stages as they were asked for, (first place, parts), without regard to caps."""
    edited = _Editing(run)
    for record in edits:
        edited.apply(record)
    return edited.wanted


class _Editing:
    """The run after the edits so far. A place is a number in the order, before skips."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.place = 0
        self.names = list(run.names)
        self.datasets = list(run.datasets)
        self.sources: list[SourceOrder] = list(run.order.sources)
        self.bans: dict[int, SourceBans] = {}
        """The bans of each source that has some."""
        self.is_mixture = run.stages is not None
        stages = run.stages or [MixtureStage(0, (1,))]
        self.wanted = [(stage.start, stage.parts) for stage in stages]
        """The stages as they were asked for, without regard to caps."""
        self.stages = [self._stage(start, parts) for start, parts in self.wanted]
        self.skips = Skips()
        self.end = ENDLESS
        self.caps: dict[int, tuple[int, str]] = {}
        """Most epochs of a source, and what comes then."""
        self.reached: set[int] = set()
        """The sources that have reached their cap."""

    def apply(self, record: RecordedEdit) -> None:
        """Apply one more edit, which is not before those so far."""
        place = self.skips.place(record.at)
        self._reach_caps(place)
        if place > self.end:
            raise ValueError(
                f"the {record.edit.kind} is at sample {record.at:,}, but the order ends at sample "
                f"{int(self.skips.count_before(np.array([self.end]))[0]):,}"
            )
        self.place = place
        match record.edit:
            case Skip(samples=(first, stop)):
                self.skips = self.skips.and_at(first, stop - first)
            case Reweight(weights):
                self._reweight(weights)
            case Cap() as cap:
                self._cap(cap)
            case Add() as add:
                self._add(add)
            case Ban(source=source):
                self._ban(record, self._number_of(source))
            case Grow() as grow:
                self._grow(grow)

    def finished(self) -> Run:
        """Return the run with all edits."""
        self._reach_caps(ENDLESS)
        order: Order = self.sources[0]
        if self.is_mixture:
            order = MixtureOrder(self.sources, self.stages, seed=self.run.settings.order.seed)
        end = None if self.end == ENDLESS else self.end
        return replace(
            self.run,
            names=tuple(self.names),
            datasets=tuple(self.datasets),
            stages=tuple(self.stages) if self.is_mixture else None,
            order=EditedOrder(order, self.skips, end, self.bans),
            bans=BanMask(self.bans) if self.bans else None,
        )

    def _number_of(self, source: str | None) -> int:
        if source is None and len(self.names) == 1:
            return 0
        one_of("source", source, self.names)
        return self.names.index(str(source))

    @property
    def _deal(self) -> Deal:
        return Deal(self.stages, seed=self.run.settings.order.seed)

    # Weights

    def _reweight(self, weights: Mapping[str, Any]) -> None:
        if not self.is_mixture:
            raise ValueError(
                f"weights are {dict(weights)}, but this run has one source, {self.names[0]!r}"
                "\n\nhint: Add(name, data, weights=...) makes it a mixture"
            )
        parts = parts_of(weights, self.names)
        self.wanted = [stage for stage in self.wanted if stage[0] < self.place]
        self.wanted.append((self.place, parts))
        self._restage(self.place, begin=True)

    def _restage(self, place: int, *, begin: bool) -> None:
        """The stages from here on again, with a new one at this place or only the later ones."""
        following = [stage for stage in self.wanted if stage[0] > place]
        if begin:
            following.insert(0, (place, self._wanted_at(place)))
        self.stages = [s for s in self.stages if s.start < place + (not begin)]
        self.end = ENDLESS
        if any(self.caps[source][1] == "end" for source in self.reached):
            self.end = place
        for start, parts in following:
            allowed = self._allowed(parts)
            if not any(allowed):
                self.end = min(self.end, start)
                break
            self.stages.append(self._stage(start, allowed))

    def _stage(self, start: int, parts: tuple[int, ...]) -> MixtureStage:
        """A stage whose blocks are dealt to where it is to end now; an edit may end it earlier."""
        return MixtureStage(
            start, parts, min((s for s, _ in self.wanted if s > start), default=ENDLESS)
        )

    def _wanted_at(self, place: int) -> tuple[int, ...]:
        return [parts for start, parts in self.wanted if start <= place][-1]

    def _allowed(self, parts: tuple[int, ...]) -> tuple[int, ...]:
        """The parts without those of sources that have reached their cap."""
        return tuple(0 if source in self.reached else p for source, p in enumerate(parts))

    # Caps

    def _cap(self, cap: Cap) -> None:
        before = self._allowed(self._wanted_at(self.place))
        for name, epochs in cap.epochs.items():
            source = self._number_of(name)
            self.caps.pop(source, None)
            self.reached.discard(source)
            if epochs is None:
                continue
            self.caps[source] = epochs, cap.then
            if self._counts()[source] >= self.sources[source].first_of_epoch(epochs):
                self.reached.add(source)
        changed = self._allowed(self._wanted_at(self.place)) != before
        self._restage(self.place, begin=changed or self.end == self.place)

    def _counts(self) -> list[int]:
        """Count the samples of each source before this place."""
        return self._deal.counts_before(self.place)

    def _reach_caps(self, place: int) -> None:
        """Begin the stages of the caps that are reached up to this place."""
        while (caps := self._coming_caps()) and min(caps)[0] <= place:
            self.place, source = min(caps)
            self.reached.add(source)
            self._restage(self.place, begin=True)

    def _coming_caps(self) -> list[tuple[int, int]]:
        """The place where each cap is reached, and its source."""
        coming = []
        for source in self.caps.keys() - self.reached:
            last = self.sources[source].first_of_epoch(self.caps[source][0]) - 1
            place = int(self._deal.sample_of(source, np.array([last]))[0])
            if 0 <= place < self.end:
                coming.append((max(place + 1, self.place), source))
        return coming

    # Sources

    def _ban(self, record: RecordedEdit, number: int) -> None:
        data = self.datasets[number]
        bans = self.bans.get(number, SourceBans()).and_from(record.at, banned_by(record, data))
        if bans.ban_all(data.num_tokens):
            raise ValueError(
                f"the ban leaves nothing of {self.names[number]!r} to train on"
                "\n\nhint: in a mixture, a source of which nothing is wanted has the weight 0"
            )
        self.bans[number] = bans

    def _add(self, add: Add) -> None:
        if add.name in self.names:
            raise ValueError(f"a source {add.name!r} is to be added, and there is one already")
        number = len(self.names)
        self.names.append(add.name)
        self.datasets.append(add.data)
        refuse_different_tokenizers(self.names, self.datasets)
        self.sources.append(self.run.source_order(add.data, number))
        self.wanted = [(start, (*parts, 0)) for start, parts in self.wanted]
        self.stages = [stage._replace(parts=(*stage.parts, 0)) for stage in self.stages]
        self.is_mixture = True
        self._reweight(add.weights)

    def _grow(self, grow: Grow) -> None:
        number = self._number_of(grow.source)
        order = self.run.source_order(grow.data, number)
        index = self._counts()[number]
        self.sources[number] = GrownSource.of(self.sources[number], index, order)
        self.datasets[number] = grow.data
