"""States and edits with values that nobody means: huge, nested, negative, contradictory.

They come from a checkpoint of others, from a line that somebody added to the requests of a run
that trains, from flags. Each ends in an error that we raise, or is accepted, and then the next
batch is there; nothing else is ever raised, takes long, or takes memory.
"""

import copy
import json
import linecache
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from faults.forks import ROOT
from faults.fuzz import fuzz_readers
from faults.mutate import VALUES, places_of
from faults.readers import Reader
from faults.tally import Tally

import tokenmill
from tokenmill.edits import Ban, Cap, Reweight, Skip, edit_state
from tokenmill.edits.edit_values import KINDS, edit_from_json
from tokenmill.errors import TokenmillError
from tokenmill.train.edits_file import apply_line

FIFO = "fifo"
HOSTILE: list[Any] = [
    *VALUES, 2**48 - 1, 2**48, 2**62 - 1, 2**62, 10**13, 10**30, 10**400, -(2**70), 5e-324, -0.5,
    float("nan"), float("inf"), float("-inf"), "1e999999999", "1e-999999999", "9" * 5000, "1/0",
    "0/0", "-1/3", "1/3", "\u0663", "NaN", "/dev/zero", "/dev/stdin", "/proc/self/mem", "/", FIFO,
    "s3://x/y", [0, 10**13], [10**13, 0], [0, 2**48 - 1], [-1, 5], [5, 5], [[1]], [[0, 1, 2]],
    [[0, 10**13]], [[[]]], [True, False], [0.5, 1.5], ["a", "b"], [None, None], {"": 1}, {"a": -1},
    {"a": 0}, {"a": 0, "b": 0}, {"a": 1e308, "b": 1e308}, {"a": 5e-324, "b": 1}, {"b": 2**48 - 1},
    {"a": "1e999999999", "b": 1}, {"a": "1/99999999999999999", "b": "1/99999999999999998"},
    {"a": None}, {"a": 1}, {"a": {"b": 1}}, list(range(50)), [[2 * n, 2 * n] for n in range(60)],
]  # fmt: skip
PATHS = ["/dev/zero", "/proc/self/mem", "/", "", "\x00", "x" * 5000, FIFO, "numbers", "c.npy", 5]
FIELDS = (
    "steps", "samples", "documents", "tokens", "source", "weights", "epochs", "then", "name",
    "data", "step", "note", "asked", "kind", "proof", "at", "fingerprint",
)  # fmt: skip
REQUESTS: list[dict[str, Any]] = [
    {"kind": "reweight", "weights": {"a": 0.7, "b": 0.3}},
    {"kind": "skip", "steps": [8, 11]},
    {"kind": "skip", "samples": [90, 110]},
    {"kind": "ban", "documents": [3, [5, 9]], "source": "a", "step": 9},
    {"kind": "ban", "tokens": [100, 200], "source": "b"},
    {"kind": "cap", "epochs": {"a": 3}, "then": "end"},
    {"kind": "cap", "epochs": {"a": 2, "b": None}},
    {"kind": "add", "name": "c", "data": "c.npy", "weights": {"a": 1, "b": 1, "c": 1}},
]


def _loader(kind: str) -> tokenmill.BatchLoader:
    ids = np.tile(np.append(np.arange(1, 20), 0), 50).astype(np.uint16)
    a, b = (tokenmill.from_array(ids + n, end_of_text=n) for n in range(2))
    shape = {"batch_size": 2, "block_size": 16, "seed": 3}
    if kind == "packed rows":
        return tokenmill.BatchLoader(a, rows="packed", **shape)
    if kind == "windows":
        return tokenmill.BatchLoader(a, **shape)
    mixture = tokenmill.Mixture({"a": a, "b": b}, weights={"a": 0.5, "b": 0.5})
    return tokenmill.BatchLoader(mixture, **shape)


def _edited() -> tokenmill.BatchLoader:
    loader = _loader("mixture")
    for _ in range(4):
        next(loader)
    loader.edit(Reweight({"a": 3, "b": 1}), note="more of a")
    loader.edit(Skip(samples=(40, 50)))
    loader.edit(Ban(documents=[3, (5, 9)], source="a"))
    loader.edit(Cap({"b": 3}))
    for _ in range(3):
        next(loader)
    return loader


def _state_of(kind: str) -> dict[str, Any]:
    if kind == "edited mixture":
        return _edited().state_dict()
    loader = _loader(kind)
    next(loader)
    return loader.state_dict()


def _make_state(kind: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "case.json").write_text(json.dumps(_state_of(kind)))


def _make_requests(folder: Path) -> None:
    (folder / "case.json").write_text(json.dumps(REQUESTS))


def change(data: bytes, chance: random.Random) -> bytes:
    """Other values in up to three places of a tree, fields that are too many, or too few."""
    tree = json.loads(data)
    if isinstance(tree, list) and "kind" in tree[0]:  # requests: one of them
        tree = dict(chance.choice(tree))
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = places_of(tree)
        parent, key = chance.choice(places)
        if chance.random() < 0.1 and isinstance(parent, dict) and len(parent) > 1:
            del parent[key]
        elif chance.random() < 0.1 and isinstance(parent, dict):
            parent[chance.choice(FIELDS)] = _value(chance)
        elif key in ("documents", "data") and chance.random() < 0.5:
            parent[key] = chance.choice(PATHS)
        else:
            parent[key] = _value(chance)
    return json.dumps(tree).replace('"nested"', "[" * 800 + "]" * 800).encode()


def _name_a_file(data: bytes, chance: random.Random) -> bytes:
    """A request with a path in it, of something that may not be a file."""
    request = copy.deepcopy(REQUESTS[chance.choice((3, 7))])
    request["documents" if request["kind"] == "ban" else "data"] = chance.choice(PATHS)
    return json.dumps(request).encode()


def _value(chance: random.Random) -> Any:
    return "nested" if chance.random() < 0.03 else copy.deepcopy(chance.choice(HOSTILE))


def _ours(work: Callable[[], Any]) -> Any:
    """Do it; an error of another kind is right only where a line of ours raises it, with words."""
    try:
        return work()
    except (ValueError, TypeError) as error:
        last = error.__traceback__
        while last.tb_next is not None:
            last = last.tb_next
        file, line = last.tb_frame.f_code.co_filename, last.tb_lineno
        is_raised = linecache.getline(file, line).strip().startswith("raise ")
        if is_raised and file.startswith(str(ROOT / "src")) and str(error).strip():
            raise TokenmillError(str(error)) from error
        raise


def _parsed(folder: Path) -> Any:
    return json.loads((folder / "case.json").read_bytes())


def _with_files(folder: Path) -> None:
    """What paths in the values mean: a pipe that nobody writes to, and data."""
    os.chdir(folder)
    if not os.path.exists(FIFO):
        os.mkfifo(FIFO)
    Path("numbers").write_text("3\n99999999999999999999\n")
    np.save("c.npy", np.arange(500, dtype=np.uint16))


def _read_state(kind: str) -> Callable[[Path, dict[str, bytes]], object]:
    def read(folder: Path, sound: dict[str, bytes]) -> None:
        _with_files(folder)
        state = _parsed(folder)
        loader = _edited() if kind == "edited mixture" else _loader(kind)
        _ours(lambda: loader.load_state_dict(state))
        next(loader, None)
        loader.usage()

    return read


def _read_edit_of_state(folder: Path, sound: dict[str, bytes]) -> None:
    _with_files(folder)
    state = _parsed(folder)
    edits = [Ban(documents=[1], source="a"), Skip(samples=(200, 210)), Cap({"a": 9})]
    changed = _ours(lambda: edit_state(state, *edits))
    loader = _edited()
    _ours(lambda: loader.load_state_dict(changed))
    next(loader, None)


def _read_request(folder: Path, sound: dict[str, bytes]) -> None:
    _with_files(folder)
    request = _parsed(folder)
    loader = _edited()
    before = loader.state_dict()
    try:
        _ours(lambda: apply_line(loader, json.dumps(request), "a request"))
    except TokenmillError:
        assert loader.state_dict() == before, "a request that is refused has changed the run"
        next(loader)
        raise
    next(loader, None)
    again = _edited()
    _ours(lambda: again.load_state_dict(json.loads(json.dumps(loader.state_dict()))))


def _read_edit(folder: Path, sound: dict[str, bytes]) -> None:
    """The same as a value: made, put into a state, loaded."""
    _with_files(folder)
    request = _parsed(folder)
    if not isinstance(request, dict) or request.get("kind") not in list(KINDS):
        request = {"kind": "skip", "samples": request}
    values = {n: v for n, v in request.items() if n not in ("kind", "step", "note", "asked")}
    edit = _ours(lambda: edit_from_json(request["kind"], values))
    state = _edited().state_dict()
    at, note = request.get("step"), request.get("note")
    changed = _ours(lambda: edit_state(state, edit, at=at, note=note))
    loader = _edited()
    _ours(lambda: loader.load_state_dict(changed))
    next(loader, None)


COUNTED = {"mutate": change, "counted": "states and edits"}
KINDS_OF_STATES = ("windows", "packed rows", "mixture", "edited mixture")
CASES = [
    *(
        Reader(f"state, {kind}", _make_state(kind), _read_state(kind), **COUNTED)
        for kind in KINDS_OF_STATES
    ),
    Reader("edit_state", _make_state("edited mixture"), _read_edit_of_state, **COUNTED),
    Reader("edits as values", _make_requests, _read_edit, **COUNTED),
    Reader(
        "files of bans",
        _make_requests,
        _read_request,
        mutate=_name_a_file,
        counted="states and edits",
    ),
    Reader("requests of a run", _make_requests, _read_request, **COUNTED),
]


def give_hostile_values(tally: Tally, scratch: Path, most: int) -> None:
    """So many states or edits of each kind."""
    fuzz_readers(tally, scratch, CASES, most)
