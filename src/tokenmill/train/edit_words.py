"""What an edit changes, in words; `edit` is its JSON."""

from collections.abc import Mapping
from typing import Any

from tokenmill.base.human import plural


def words_of(edit: Mapping[str, Any], step: int) -> str:
    """Say what an edit changes from a step on; a skip says itself where it is."""
    changes = what_changes(edit)
    return changes if edit["kind"] == "skip" else f"from step {step:,} on, {changes}"


def what_changes(edit: Mapping[str, Any]) -> str:
    """Say what an edit changes, without the step from which it holds."""
    return _WORDS[edit["kind"]](edit)


def _reweight(edit: Mapping[str, Any]) -> str:
    return f"weights {_weights(edit['weights'])}"


def _skip(edit: Mapping[str, Any]) -> str:
    unit = "samples" if "samples" in edit else "steps"
    first, stop = edit[unit]
    return f"what was planned for the {unit} {first:,} to {stop - 1:,} is skipped"


def _ban(edit: Mapping[str, Any]) -> str:
    if "tokens" in edit:
        first, stop = edit["tokens"]
        banned = f"tokens {first:,} to {stop - 1:,}"
    elif isinstance(edit["documents"], str):
        banned = f"the documents in {edit['documents']}"
    else:
        runs = [run if isinstance(run, list) else [run] for run in edit["documents"]]
        banned = f"documents {', '.join(' to '.join(f'{n:,}' for n in run) for run in runs)}"
    source = f" of {edit['source']}" if edit.get("source") else ""
    return f"{banned}{source} are not trained on"


def _cap(edit: Mapping[str, Any]) -> str:
    caps = ", ".join(
        f"any number of epochs of {name}"
        if n is None
        else f"at most {plural(n, 'epoch')} of {name}"
        for name, n in edit["epochs"].items()
    )
    then = "the others share the rest" if edit["then"] == "share" else "the run ends"
    return f"{caps}; then {then}"


def _add(edit: Mapping[str, Any]) -> str:
    return f"another source, {edit['name']} ({edit['data']}); weights {_weights(edit['weights'])}"


def _grow(edit: Mapping[str, Any]) -> str:
    return f"{edit['source']} has more tokens at its end, which join with its next epoch"


_WORDS = {
    "reweight": _reweight,
    "skip": _skip,
    "ban": _ban,
    "cap": _cap,
    "add": _add,
    "grow": _grow,
}


def _weights(weights: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {weight}" for name, weight in weights.items())
