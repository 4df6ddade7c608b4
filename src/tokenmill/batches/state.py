"""How far a run is, as a few JSON values; a saved one is refused if it is of another run.

The position is one number, the samples consumed over all ranks; the rest says of which order and
which data, by fingerprint and in words, so that a refusal can list what differs. Batch size, ranks
and workers are not in it: they may change.
"""

from collections.abc import Mapping
from typing import Any

from tokenmill.base.human import one_line
from tokenmill.errors import OrderMismatchError
from tokenmill.order.step_share import LARGEST

STATE_FORMAT = 1
USUAL = {
    **{"rows": "windows", "begin_token": None, "long": "split"},
    **{"documents": None, "augment": None},
}
"""What holds where a state does not say."""
_OF_DATA = ("data_fingerprint", "sources", "num_tokens", "documents")


def belongs_to(state: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """True if a saved state was never edited and is of this order and data."""
    if not isinstance(state, Mapping) or "edits" in state:
        return False
    saved = {**USUAL, **state}
    return all(key in saved and saved[key] == here[key] for key in here)


def read_state(state: Mapping[str, Any], here: Mapping[str, Any]) -> tuple[int, int]:
    """The samples and passes of a saved state, if its order and data are those of `here`.

    An empty `here` stands for any run.
    """
    if not isinstance(state, Mapping):
        raise not_a_state(f"this is {state!r}, not the state of a BatchLoader")
    for key in ("format", "samples", "pass", "order_fingerprint", "sources", *here):
        if key not in state and key not in USUAL:
            raise not_a_state(f"this is not the state of a BatchLoader (it has no {key!r})")
    if state["format"] != STATE_FORMAT:
        raise OrderMismatchError(
            f"cannot resume: the state has format {state['format']!r}, this tokenmill reads "
            f"{STATE_FORMAT}",
            hint="install the version of tokenmill that saved it",
        )
    if here:
        _refuse_differences({**USUAL, **state}, {**USUAL, **here})
    for key in ("samples", "pass"):
        value = state[key]
        if type(value) is not int or not 0 <= value < LARGEST:
            raise not_a_state(f"{key!r} in the state is {value!r}, not a count")
    return state["samples"], state["pass"]


def not_a_state(why: str) -> OrderMismatchError:
    """The error for a state that no loader has made."""
    return OrderMismatchError(
        f"cannot resume: {why}", hint="pass what loader.state_dict() returned"
    )


def _refuse_differences(state: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    differing = [key for key in here if state[key] != here[key]]
    if not differing:
        return
    named = [key for key in differing if not key.endswith("_fingerprint")]
    if "rows" in named:
        named = [key for key in named if key != "documents"]  # only one of the two has them
    settings = [key for key in named if key not in _OF_DATA]
    if "order_fingerprint" in differing and (settings or "documents" not in named):
        wanted = ", ".join(f"{key}={state[key]!r}" for key in settings)
        what = "order"
        hint = f"use {wanted or 'the settings of that run'} to resume"
    else:
        what = "data"
        hint = "open the data it was saved with"
    saved, ours = (one_line(str(those[f"{what}_fingerprint"])[:8]) for those in (state, here))
    lines = ""
    for name in named:
        lines += f"\n       {name:<12} {one_line(str(state[name])[:200])} -> {here[name]}"
    raise OrderMismatchError(
        f"cannot resume: the saved {what} (fingerprint {saved}) is not this one "
        f"(fingerprint {ours}){lines}",
        hint=f"{hint}, or start a new order by not loading the saved state",
    )
