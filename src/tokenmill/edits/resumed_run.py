"""The run of a saved state, with the data that is given now: accepted where its past is the same.

What is given may differ from what was saved in what has not been served. Data may have grown at its
end: its former tokens are proven by the hashes of their shards. The weights of a mixture may differ
from the saved sample on. Both become edits at the saved sample. `blocks` may mean its former sizes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill.batches.run.ordered_data import OrderedData
from tokenmill.batches.state import read_state
from tokenmill.dataset import TokenDataset
from tokenmill.edits.apply_edits import stages_of
from tokenmill.edits.edit_record import RecordedEdit, edits_from_json, merge_edits
from tokenmill.edits.edit_values import Add, Grow, Reweight
from tokenmill.edits.edited_run import EditedRun
from tokenmill.edits.named_files import with_files
from tokenmill.errors import OrderMismatchError
from tokenmill.order.mixture_order import MixtureStage
from tokenmill.order.sample_order import FORMER_BLOCKS, SampleOrder

_AT_ONCE = 1 << 16  # samples
_Stage = tuple[int, tuple[int, ...]]


def resumed_run(
    given: OrderedData,
    state: Mapping[str, Any],
    sources: Mapping[str, TokenDataset],
    held: Sequence[TokenDataset],
) -> tuple[EditedRun, int, int]:
    """The run of a state, the samples it has served, and its pass; refuses one of another past.

    `sources` is data of sources that were added, by name. What is `held` is not opened again.
    """
    base = given
    if isinstance(state, Mapping):
        base = _with_stages(_before_it_grew(_with_blocks(given, state), state), state)
    samples, number = read_state(state, base.to_json())
    saved = edits_from_json(state.get("edits", []), state["order_fingerprint"], samples)
    opened = {**dict(zip(given.names, given.datasets, strict=True)), **sources}
    edits = tuple(with_files(record, opened, held) for record in saved)
    run = EditedRun(base, edits)
    if not run.now.order.is_over(samples):
        run = EditedRun(base, merge_edits(edits, _growth(base, given, edits, samples)))
    if base.order.stages != given.order.stages:
        run = _with_given_weights(run, given, samples)
    return run, samples, number


def _with_blocks(given: OrderedData, state: Mapping[str, Any]) -> OrderedData:
    """With `blocks` as they were when the state was saved."""
    if given.order.sources[0].name == "blocks" and state.get("order") == FORMER_BLOCKS.name:
        return replace(given, order=given.order.with_former_blocks())
    return given


# Data that has grown


def _before_it_grew(given: OrderedData, state: Mapping[str, Any]) -> OrderedData:
    """With as many tokens of each source as the state says, if those are what it was saved with."""
    saved, now = state.get("num_tokens"), [data.num_tokens for data in given.datasets]
    if not isinstance(saved, list) or len(saved) != len(now) or saved == now:
        return given
    if not all(type(n) is int and 0 < n <= have for n, have in zip(saved, now, strict=True)):
        return given
    parts = [data.part(0, n) for data, n in zip(given.datasets, saved, strict=True)]
    before = given.with_datasets(parts)
    return before if before.fingerprint == state.get("data_fingerprint") else given


def _growth(
    base: OrderedData, given: OrderedData, edits: Sequence[RecordedEdit], samples: int
) -> list[RecordedEdit]:
    """What has joined each source since the last of these edits."""
    known = {name: data.num_tokens for name, data in zip(base.names, base.datasets, strict=True)}
    for record in edits:
        if isinstance(record.edit, Grow):
            known[record.edit.source] = record.edit.data.num_tokens
    opened = dict(zip(given.names, given.datasets, strict=True))
    return [
        with_files(RecordedEdit(samples, Grow(name)), opened)
        for name, data in opened.items()
        if data.num_tokens > known[name]
    ]


# Weights that differ later


def _with_stages(given: OrderedData, state: Mapping[str, Any]) -> OrderedData:
    """With the stages of the state, if it has stages of these sources."""
    if given.order.stages is None or state.get("sources") != list(given.names):
        return given
    stages = [[stage.start, *stage.parts] for stage in given.order.stages]
    saved = state.get("stages")
    if saved == stages or not _are_stages(saved, len(stages[0])):
        return given
    assert isinstance(saved, list)
    made = [MixtureStage(start, tuple(parts)) for start, *parts in saved]
    return replace(given, order=given.order.with_stages(made))


def _are_stages(saved: Any, length: int) -> bool:
    try:
        numbers = np.array(saved)
        starts, parts = numbers[:, 0], numbers[:, 1:]
    except (ValueError, TypeError, IndexError):
        return False
    rising = starts[0] == 0 and bool((np.diff(starts) > 0).all())
    right_kind = numbers.dtype.kind == "i" and numbers.shape[1] == length
    return right_kind and rising and bool((parts >= 0).all() and parts.any(axis=1).all())


def _with_given_weights(run: EditedRun, given: OrderedData, samples: int) -> EditedRun:
    """With the weights of the given mixture from where they differ; nothing before may change."""
    saved = stages_of(run.base, run.edits)
    asked = [(stage.start, stage.parts) for stage in given.order.stages or ()]
    differing = set(saved) ^ set(asked)
    if not differing:
        return run
    order, place = run.now.order, min(start for start, _ in differing)
    if place < order.skips.place(samples):
        other = _reweighted(run, asked, place)
        _refuse_difference(order, other.now.order, samples, run.now.names)
        place = order.skips.place(samples)
    return _reweighted(run, asked, place)


def _reweighted(run: EditedRun, asked: Sequence[_Stage], place: int) -> EditedRun:
    """With these stages from a place on instead of all that was asked for."""
    in_force = [parts for start, parts in asked if start <= place][-1]
    stages = [(place, in_force), *(stage for stage in asked if stage[0] > place)]
    samples = run.now.order.skips.count_before(np.array([start for start, _ in stages])).tolist()
    edits = [e for e in run.edits if e.at < samples[0] or not isinstance(e.edit, Reweight)]
    more = []
    for at, (_, parts) in zip(samples, stages, strict=True):
        added = [e.edit.name for e in edits if isinstance(e.edit, Add) and e.at <= at]
        weights = dict(zip(run.base.names, parts, strict=True)) | dict.fromkeys(added, 0)
        more.append(RecordedEdit(at, Reweight(weights), "the mixture that was given at resume"))
    return EditedRun(run.base, merge_edits(edits, more))


def _refuse_difference(
    saved: SampleOrder, given: SampleOrder, stop: int, names: Sequence[str]
) -> None:
    """Refuse an order that has another sample than the saved one before `stop`; name the first."""
    for start in range(0, stop, _AT_ONCE):
        samples = np.arange(start, min(start + _AT_ONCE, stop))
        (was, index), (would_be, other) = saved.source_of(samples), given.source_of(samples)
        differing = np.flatnonzero((was != would_be) | (index != other))
        if len(differing):
            first = differing[0]
            raise OrderMismatchError(
                f"cannot resume: the weights of the mixture differ before the saved sample "
                f"{stop:,}: sample {samples[first]:,} was of {names[was[first]]!r}, and would be "
                f"of {names[would_be[first]]!r}",
                hint="give the weights of that run; loader.edit(Reweight({...})) changes "
                "them from the next step on",
            )
