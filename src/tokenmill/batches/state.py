"""How far a run is, as a few JSON values, and whether a saved one belongs to this run.

The position is one number, the samples consumed over all ranks; the rest says of which order and
which data, by fingerprint and in words, so that a refusal can list what differs. The keys are
always the same ones. Batch size, ranks and workers are not in it: they may change.
"""

from collections.abc import Mapping
from typing import Any

from tokenmill.errors import OrderMismatchError

STATE_FORMAT = 1


def make_state(
    samples: int, passes: int, order: Mapping[str, Any], data: Mapping[str, Any]
) -> dict[str, Any]:
    """The state after `samples` samples of this order over this data."""
    return {"format": STATE_FORMAT, "samples": samples, "pass": passes, **order, **data}


def read_state(
    state: Mapping[str, Any], order: Mapping[str, Any], data: Mapping[str, Any]
) -> tuple[int, int]:
    """The samples and passes of a saved state, refused unless it is of this order and data."""
    here = {"format": STATE_FORMAT, **order, **data}
    if not isinstance(state, Mapping):
        raise _not_a_state(f"this is {state!r}, not the state of a BatchLoader")
    missing = [key for key in (*here, "samples", "pass") if key not in state]
    if missing:
        raise _not_a_state(f"this is not the state of a BatchLoader (it has no {missing[0]!r})")
    if state["format"] != STATE_FORMAT:
        raise OrderMismatchError(
            f"cannot resume: the state has format {state['format']!r}, this tokenmill reads "
            f"{STATE_FORMAT}",
            hint="install the version of tokenmill that saved it",
        )
    _refuse_differences(state, here)
    for key in ("samples", "pass"):
        value = state[key]
        if type(value) is not int or value < 0:
            raise _not_a_state(f"{key!r} in the state is {value!r}, not a count")
    return state["samples"], state["pass"]


def _not_a_state(why: str) -> OrderMismatchError:
    return OrderMismatchError(
        f"cannot resume: {why}", hint="pass what loader.state_dict() returned"
    )


def _refuse_differences(state: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    differing = [key for key in here if state[key] != here[key]]
    if not differing:
        return
    if state["order_fingerprint"] == here["order_fingerprint"]:
        what, hint = "data", "open the data it was saved with"
    else:
        what = "order"
        named = [k for k in differing if not k.endswith("_fingerprint")]
        wanted = ", ".join(f"{key}={state[key]!r}" for key in named)
        hint = f"use {wanted} to resume" if wanted else "use the settings it was saved with"
    key = f"{what}_fingerprint"
    lines = [
        f"cannot resume: the saved {what} (fingerprint {str(state[key])[:8]}) is not this one "
        f"(fingerprint {str(here[key])[:8]})"
    ]
    lines += [
        f"       {name:<12} {state[name]} -> {here[name]}"
        for name in differing
        if not name.endswith("_fingerprint")
    ]
    raise OrderMismatchError(
        "\n".join(lines), hint=f"{hint}, or start a new order by not loading the saved state"
    )
