"""The run of a saved state with edits, and more edits for a state whose run is stopped.

The data and the weights that are given at resume may differ from what was saved in what has not
been served; both differences become edits at the saved sample. Data may have grown at its end: its
former tokens are proven by the hashes of their shards.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tokenmill.base.suggest import one_of
from tokenmill.batches.run import Run
from tokenmill.batches.state import not_a_state, read_state
from tokenmill.dataset import TokenDataset
from tokenmill.edits.edit_record import (
    RecordedEdit,
    edits_from_json,
    edits_to_json,
    merge_edits,
    record_edits,
)
from tokenmill.edits.edit_values import Add, Edit, Grow, Reweight
from tokenmill.edits.edited_order import EditedOrder, Skips
from tokenmill.edits.edited_run import EditedRun
from tokenmill.edits.named_files import with_files
from tokenmill.errors import OrderMismatchError
from tokenmill.order.mixture_order import MixtureStage


def edit_state(
    state: Mapping[str, Any], *edits: Edit, at: int | None = None, note: str | None = None
) -> dict[str, Any]:
    """A saved state with more edits, which hold from sample `at` on, by default from where it is.

    `at` counts samples, and so does a Skip: a state does not say how many a step has. Names of
    sources are checked here, what depends on the data when a loader loads the state.
    """
    samples, _ = read_state(state, {})
    fingerprint, names = (state[key] for key in ("order_fingerprint", "sources"))
    if not isinstance(names, list) or not str(fingerprint).isascii():
        raise not_a_state("its sources are not a list, or its fingerprint is not one")
    so_far = edits_from_json(state.get("edits", []), fingerprint, samples)
    records = record_edits(edits, samples if at is None else at, note, served=samples)
    merged = merge_edits(so_far, [with_files(record, {}) for record in records])
    names = list(names)
    for record in merged:
        edit: Any = record.edit
        names += [edit.name] if isinstance(edit, Add) else []
        for field in ("weights", "epochs"):
            for name in getattr(edit, field, ()):
                one_of("source", name, names)
        one_of("source", getattr(edit, "source", None), (*names, None))
    return {**state, "edits": edits_to_json(fingerprint, merged)}


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
    run = EditedRun(base, tuple(with_files(record, opened, held) for record in saved))
    order = run.now.order
    if not (isinstance(order, EditedOrder) and order.is_over(samples)):
        growth = _growth(run, given, samples)
        run = EditedRun(base, merge_edits(run.edits, growth))
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
        former = tuple(data.part(0, count) for data, count in counts)
        before = Run.of(given.names, former, given.stages, given.settings)
        if before.fingerprint == state.get("data_fingerprint"):
            return before
    return given


def _growth(run: EditedRun, given: Run, samples: int) -> list[RecordedEdit]:
    """What has joined each source since the last edit of the run."""
    known = dict(zip(run.now.names, run.now.datasets, strict=True))
    opened = dict(zip(given.names, given.datasets, strict=True))
    return [
        with_files(RecordedEdit(samples, Grow(name)), opened)
        for name, data in opened.items()
        if data.num_tokens > known[name].num_tokens
    ]


# Weights that differ later


def _with_stages(given: Run, state: Mapping[str, Any]) -> Run:
    """Return the run with the weights of the state, if its fingerprint proves that it had them."""
    if given.stages is None or state.get("sources") != list(given.names):
        return given
    with suppress(KeyError, TypeError, ValueError):  # `read_state` says what differs
        saved = tuple(MixtureStage(start, tuple(parts)) for start, *parts in state["stages"])
        if replace(given, stages=saved).order_fingerprint == state["order_fingerprint"]:
            return Run.of(given.names, given.datasets, saved, given.settings)
    return given


def _with_given_weights(run: EditedRun, given: Run, samples: int) -> EditedRun:
    """Return the run with the weights of the given mixture from where they differ; not before."""
    asked = given.stages or ()
    differing = set(run.wanted) ^ set(asked)
    if not differing:
        return run
    skips = Skips(run.skips)
    place = min(start for start, _ in differing)
    if place < skips.place(samples):
        saved, wanted = (
            dict(zip(run.now.names, _in_force(stages, place), strict=False))
            for stages in (run.wanted, asked)
        )
        raise OrderMismatchError(
            f"cannot resume: the weights of the mixture differ from sample {skips.sample(place):,} "
            f"on, and {samples:,} samples were served: {saved} -> {wanted}",
            hint="give the weights of that run; loader.edit(Reweight({...})) changes them from the "
            "next step on",
        )
    first = skips.sample(place)
    edits = [e for e in run.edits if e.at < first or not isinstance(e.edit, Reweight)]
    more = []
    for start in [place, *(start for start, _ in asked if start > place)]:
        at = skips.sample(start)
        added = [e.edit.name for e in edits if isinstance(e.edit, Add) and e.at <= at]
        weights = dict(zip(run.base.names, _in_force(asked, start), strict=True))
        weights |= dict.fromkeys(added, 0)
        more.append(RecordedEdit(at, Reweight(weights), "the mixture that was given at resume"))
    return EditedRun(run.base, merge_edits(edits, more))


def _in_force(stages: Sequence[MixtureStage], place: int) -> tuple[int, ...]:
    return [parts for start, parts in stages if start <= place][-1]
