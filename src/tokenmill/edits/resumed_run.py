"""The run of a saved state, with the data that is given now: accepted where its past is the same.

What is given may differ from what was saved in what has not been served. Data may have grown at its
end: its former tokens are proven by the hashes of their shards. The weights of a mixture may differ
from the saved sample on. Both become edits at the saved sample.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmill.batches.run import Run
from tokenmill.batches.state import read_state
from tokenmill.dataset import TokenDataset
from tokenmill.edits.apply_edits import stages_of
from tokenmill.edits.edit_record import RecordedEdit, edits_from_json, merge_edits
from tokenmill.edits.edit_values import Add, Grow, Reweight
from tokenmill.edits.edited_order import is_over, skips_of
from tokenmill.edits.edited_run import EditedRun
from tokenmill.edits.named_files import with_files
from tokenmill.edits.skips import Skips
from tokenmill.errors import OrderMismatchError
from tokenmill.order.mixture_order import MixtureStage

_Stage = tuple[int, tuple[int, ...]]


def resumed_run(
    given: Run,
    state: Mapping[str, Any],
    sources: Mapping[str, TokenDataset],
    held: Sequence[TokenDataset],
) -> tuple[EditedRun, int, int]:
    """The run of a state, the samples it has served, and its pass; refuses one of another past.

    `sources` is data of sources that were added, by name. What is `held` is not opened again.
    """
    base = given
    if isinstance(state, Mapping):
        base = _with_stages(_before_it_grew(given, state), state)
    samples, number = read_state(state, base.to_json())
    saved = edits_from_json(state.get("edits", []), state["order_fingerprint"], samples)
    opened = {**dict(zip(given.names, given.datasets, strict=True)), **sources}
    edits = tuple(with_files(record, opened, held) for record in saved)
    run = EditedRun(base, edits)
    if not is_over(run.now.order, samples):
        run = EditedRun(base, merge_edits(edits, _growth(base, given, edits, samples)))
    if base.stages != given.stages:
        run = _with_given_weights(run, given, samples)
    return run, samples, number


# Data that has grown


def _before_it_grew(given: Run, state: Mapping[str, Any]) -> Run:
    """Return the run with as many tokens as the state says, if its fingerprint is of those."""
    if state.get("num_tokens") == [data.num_tokens for data in given.datasets]:
        return given
    with suppress(KeyError, IndexError, TypeError, ValueError):  # `read_state` says what differs
        counts = zip(given.datasets, state["num_tokens"], strict=True)
        parts = [data.part(0, count) for data, count in counts]
        before = given.with_datasets(parts)
        if before.fingerprint == state.get("data_fingerprint"):
            return before
    return given


def _growth(
    base: Run, given: Run, edits: Sequence[RecordedEdit], samples: int
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


def _with_stages(given: Run, state: Mapping[str, Any]) -> Run:
    """Return the run with the weights of the state, if its fingerprint proves that it had them."""
    if given.stages is None or state.get("sources") != list(given.names):
        return given
    with suppress(KeyError, TypeError, ValueError):  # `read_state` says what differs
        saved = tuple(MixtureStage(start, tuple(parts)) for start, *parts in state["stages"])
        if replace(given, stages=saved).order_fingerprint == state["order_fingerprint"]:
            return given.with_stages(saved)
    return given


def _with_given_weights(run: EditedRun, given: Run, samples: int) -> EditedRun:
    """Return the run with the weights of the given mixture from where they differ; not before."""
    saved = stages_of(run.base, run.edits)
    asked = [(stage.start, stage.parts) for stage in given.stages or ()]
    differing = set(saved) ^ set(asked)
    if not differing:
        return run
    skips = skips_of(run.now.order)
    place = min(start for start, _ in differing)
    first = int(skips.count_before(np.array([place]))[0])
    if place < skips.place(samples):
        raise OrderMismatchError(
            f"cannot resume: the weights of the mixture differ from sample {first:,} on, and "
            f"{samples:,} samples were served: {_weights(run, saved, place)} -> "
            f"{_weights(run, asked, place)}",
            hint="give the weights of that run; loader.edit(Reweight({...})) changes them from the "
            "next step on",
        )
    return _reweighted(run, asked, place, skips)


def _weights(run: EditedRun, stages: Sequence[_Stage], place: int) -> str:
    """The weights at a place, for people."""
    parts = [parts for start, parts in stages if start <= place][-1]
    return str(dict(zip(run.now.names, parts, strict=False)))


def _reweighted(run: EditedRun, asked: Sequence[_Stage], place: int, skips: Skips) -> EditedRun:
    """Return the run with these stages from a place on instead of all that was asked for."""
    in_force = [parts for start, parts in asked if start <= place][-1]
    stages = [(place, in_force), *(stage for stage in asked if stage[0] > place)]
    samples = skips.count_before(np.array([start for start, _ in stages])).tolist()
    edits = [e for e in run.edits if e.at < samples[0] or not isinstance(e.edit, Reweight)]
    more = []
    for at, (_, parts) in zip(samples, stages, strict=True):
        added = [e.edit.name for e in edits if isinstance(e.edit, Add) and e.at <= at]
        weights = dict(zip(run.base.names, parts, strict=True)) | dict.fromkeys(added, 0)
        more.append(RecordedEdit(at, Reweight(weights), "the mixture that was given at resume"))
    return EditedRun(run.base, merge_edits(edits, more))
