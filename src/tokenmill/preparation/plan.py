"""The plan: a function of the inputs and the settings, never of the workers.

It is written before any work is done, and every later run of the same command compares itself
with it: other settings or changed inputs are refused with a list of what differs.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tokenmill.base.atomic import keep, new_file
from tokenmill.errors import SettingsMismatchError
from tokenmill.preparation.settings import Settings
from tokenmill.preparation.workspace.work_folder import Workspace, remember
from tokenmill.shards.manifest import dtype_for
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit, cut_into_units
from tokenmill.tokens.load_tokenizer import from_state, load
from tokenmill.tokens.tokenizer import Tokenizer

PLAN_VERSION = 1
UNIT_BYTES = 32 << 20
CHUNK_BYTES = 1 << 20  # what fits a cache goes through it twice as fast


@dataclass(frozen=True)
class Plan:
    """Everything a task needs to know, besides the number of its unit."""

    workspace: Workspace
    settings: Settings
    sources: tuple[Source, ...]
    units: tuple[Unit, ...]
    chunk_bytes: int
    previous: str | None
    """Hash of the manifest that is being added to, or None for a new dataset."""
    destination: str | None = None
    """Where shards are uploaded to, such as s3://bucket/corpus; None: they stay where they are."""

    def to_json(self) -> dict[str, Any]:
        return {
            "version": PLAN_VERSION,
            "settings": self.settings.to_json(),
            "sources": [asdict(source) for source in self.sources],
            "units": [[unit.source, unit.start, unit.stop] for unit in self.units],
            "chunk_bytes": self.chunk_bytes,
            "previous": self.previous,
            "destination": self.destination,
        }

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, from the state kept in the workspace; one a process."""
        return _tokenizer(self.workspace.root / "tokenizer.json")

    @property
    def dtype(self) -> np.dtype[Any]:
        return choose_dtype(self.tokenizer, self.settings.dtype)

    @property
    def bytes_in(self) -> int:
        """Bytes to be read, compressed where the files are."""
        return sum(source.size for source in self.sources)


def make_plan(
    workspace: Workspace,
    settings: Settings,
    sources: list[Source],
    *,
    previous: str | None = None,
    destination: str | None = None,
    unit_bytes: int = UNIT_BYTES,
    chunk_bytes: int = CHUNK_BYTES,
) -> Plan:
    """Cut the sources into units. Nothing is written."""
    units = cut_into_units(sources, unit_bytes)
    return Plan(
        workspace, settings, tuple(sources), tuple(units), chunk_bytes, previous, destination
    )


def begin(
    plan: Plan,
    tokenizer: Tokenizer | None,
    *,
    restart: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Plan:
    """Write the plan, or, where one is written already, check that it is the same and use that.

    With `restart` a plan that differs is thrown away, with all that was done for it; and so it is
    where it came to an input that could not be read, and the inputs are others now.
    """
    found = read_plan(plan.workspace)
    if found is not None:
        differences = _list_all_differences(plan, found, tokenizer)
        if not differences:
            plan.workspace.failed_file.unlink(missing_ok=True)
            return found
        if only_bad_input_differs(plan, found, differences):
            plan = replace(found, settings=plan.settings)  # what is done held no bad input
            plan.workspace.failed_file.unlink(missing_ok=True)
        elif restart:
            plan.workspace.clear(keep=_kept_inputs(plan))
        elif _was_fixed(plan, found, tokenizer):
            say("an input could not be read, and the inputs changed since: starting again")
            plan.workspace.clear_work(keep=_kept_inputs(plan))  # no shard was made yet
        else:
            raise _other_preparation(plan, differences)
    if tokenizer is not None:
        keep_tokenizer(plan.workspace, tokenizer)
    with new_file(plan.workspace.plan_file) as file:
        file.write(json.dumps(plan.to_json()).encode())  # not orjson: paths may not be UTF-8
    return plan


def _kept_inputs(plan: Plan) -> list[str]:
    """The inputs that are in the workspace itself, by name: standard input."""
    root = os.path.abspath(plan.workspace.root)
    paths = [source.path for source in plan.sources]
    return [os.path.basename(path) for path in paths if os.path.dirname(path) == root]


def _was_fixed(wanted: Plan, found: Plan, tokenizer: Tokenizer | None) -> bool:
    """Whether a preparation failed on an input, and nothing but the inputs is different now."""
    same_inputs = replace(wanted, sources=found.sources)
    return found.workspace.failed_file.exists() and not _list_all_differences(
        same_inputs, found, tokenizer
    )


def load_tokenizer(
    name: str, end_of_text: str | None = None, token_pattern: str | None = None
) -> Tokenizer | None:
    """The tokenizer by name or path; None when it is yet to be learned from the input."""
    if name == "chars":
        return None
    # A rank file spells no special tokens: there the end of text is given by its number.
    if name.endswith(".tiktoken") and end_of_text is not None and end_of_text.isdecimal():
        return load(name, end_of_text=int(end_of_text), pattern=token_pattern)
    return load(name, end_of_text=end_of_text, pattern=token_pattern)


def keep_tokenizer(workspace: Workspace, tokenizer: Tokenizer) -> None:
    """Put the tokenizer where every task finds it."""
    data = orjson.dumps(tokenizer.state(), option=orjson.OPT_INDENT_2)
    keep(workspace.root / "tokenizer.json", data)


def load_plan(out_dir: str) -> Plan:
    """The plan of a preparation that was begun; tasks ask for it by the output folder."""
    return _load(Workspace(out_dir).plan_file)


def read_plan(workspace: Workspace) -> Plan | None:
    """The plan in the workspace, or None."""
    return _load(workspace.plan_file) if workspace.plan_file.exists() else None


@remember
def _load(path: Path) -> Plan:
    found = json.loads(path.read_bytes())
    return Plan(
        Workspace(path.parent.parent),
        Settings(**found["settings"]),
        tuple(Source(**source) for source in found["sources"]),
        tuple(Unit(*unit) for unit in found["units"]),
        found["chunk_bytes"],
        found["previous"],
        found["destination"],
    )


def only_bad_input_differs(wanted: Plan, found: Plan, differences: list[str]) -> bool:
    """Whether all that is new is that bad input, an error before, is to be dealt with now."""
    return len(differences) == 1 and (
        found.settings.on_bad_input == "error" != wanted.settings.on_bad_input
    )


def _list_all_differences(wanted: Plan, found: Plan, tokenizer: Tokenizer | None) -> list[str]:
    differences = list_differences(wanted.settings, wanted.sources, found.settings, found.sources)
    if wanted.previous != found.previous:
        differences.append(f"dataset added to   {found.previous} -> {wanted.previous}")
    if wanted.destination != found.destination:
        differences.append(f"goes to   {found.destination} -> {wanted.destination}")
    if tokenizer is not None and found.settings.tokenizer == wanted.settings.tokenizer:
        kept, now = found.tokenizer.fingerprint, tokenizer.fingerprint
        if kept != now:
            differences.append(f"tokenizer {wanted.settings.tokenizer}   {kept} -> {now}")
    return differences


def _other_preparation(wanted: Plan, differences: list[str]) -> SettingsMismatchError:
    hint = "use another folder, repeat the first command, or pass --overwrite to start again"
    if wanted.previous is not None:
        hint = f"repeat the first command, or remove {wanted.workspace.root} to forget it"
    return SettingsMismatchError(
        f"{wanted.workspace.out_dir} holds a preparation of other settings or inputs\n"
        + "\n".join(f"       {line}" for line in differences),
        hint=hint,
    )


def list_differences(
    wanted: Settings, sources: Sequence[Source], found: Settings, found_sources: Sequence[Source]
) -> list[str]:
    """What differs, a line each: first settings, then inputs."""
    theirs = found.to_json()
    differences = [
        f"{name}   {theirs[name]!r} -> {value!r}"
        for name, value in wanted.to_json().items()
        if theirs[name] != value
    ]
    before = {source.name: source for source in found_sources}
    now = {source.name: source for source in sources}
    differences += [f"input {name}   is new" for name in now if name not in before]
    differences += [f"input {name}   is gone" for name in before if name not in now]
    for name in now:
        for field in ("size", "mtime_ns", "kind", "compression") if name in before else ():
            old, new = getattr(before[name], field), getattr(now[name], field)
            if old != new:
                differences.append(f"input {name}   {field} {old} -> {new}")
    return differences


def choose_dtype(tokenizer: Tokenizer, wanted: str | None) -> np.dtype[Any]:
    """The smaller type that holds every id, or the one asked for when it does."""
    dtype = np.dtype(wanted or dtype_for(tokenizer.vocab_size))
    if tokenizer.vocab_size - 1 > np.iinfo(dtype).max:
        raise ValueError(
            f"dtype is {dtype}, but ids of {tokenizer.name} go up to {tokenizer.vocab_size - 1:,}; "
            'pass dtype="uint32"'
        )
    return dtype.newbyteorder("<")


@remember
def _tokenizer(path: Path) -> Tokenizer:
    return from_state(orjson.loads(path.read_bytes()))
