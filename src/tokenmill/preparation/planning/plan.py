"""The plan: a function of the inputs and the settings, never of the workers.

It is written before any work is done, and every later run of the same command compares itself
with it: other settings or changed inputs are refused with a list of what differs.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from tokenmill.errors import PrepareError, SettingsMismatchError
from tokenmill.preparation.planning.settings import Settings, list_other_settings
from tokenmill.preparation.workspace.workspace import FAILED, HUB, PLAN, Workspace, read_once
from tokenmill.shards.manifest import dtype_for
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.tokens.cuts import AT_CHARACTERS
from tokenmill.tokens.load_tokenizer import find_begin_token, from_state, load, with_begin_token
from tokenmill.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.reading.columns import Column

PLAN_VERSION = 1
TOKENIZER_FILE = "tokenizer.json"
PREVIOUS_FILE = "previous.json"
"""The manifest that is added to, as it was when the plan was made."""
CHUNK_BYTES = 1 << 20  # what fits a cache goes through it twice as fast


@dataclass(frozen=True)
class Plan:
    """Everything a task needs to know, besides the number of its unit."""

    workspace: Workspace
    settings: Settings
    sources: tuple[Source, ...]
    units: tuple[Unit, ...]
    chunk_bytes: int = CHUNK_BYTES
    previous: str | None = None
    """Hash of the manifest that is being added to, or None for a new dataset."""
    destination: str | None = None
    """Where shards are uploaded to, such as s3://bucket/corpus; None: they stay where they are."""
    keeps_apart: bool = False
    """Whether validation sets are made from files, here or in the dataset that is added to: no
    document may then be both in one of them and in the rest."""
    folder: str = ""
    """Where new files go inside the dataset, such as `v-0123456789abcdef/`; usually nowhere."""

    def to_json(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        known = {"version": PLAN_VERSION, **values}
        del known["workspace"]
        known["settings"] = self.settings.to_json()
        known["sources"] = [vars(source) for source in self.sources]
        known["units"] = [list(astuple(unit)) for unit in self.units]
        return known

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, from the state kept in the workspace; one a process."""
        return _load_kept_tokenizer(self.workspace.place)

    @property
    def cuts(self) -> re.Pattern[bytes] | None:
        """Where the tokenizer allows a document to be cut; None: nowhere, nor where rules look at
        whole documents."""
        if self.settings.has_rules:
            return None
        return AT_CHARACTERS if self.settings.tokenizer == "chars" else self.tokenizer.cuts

    @property
    def compares_lines(self) -> bool:
        return self.settings.dedup == "lines"

    @property
    def compares_documents(self) -> bool:
        """Whether documents are compared, if only to keep validation sets apart from the rest."""
        return self.settings.dedup in ("documents", "near") or self.keeps_apart

    @property
    def finds_test_items(self) -> bool:
        return self.settings.decontaminate is not None

    @property
    def cuts_test_items(self) -> bool:
        """True if test items must be found before documents are encoded."""
        return self.finds_test_items and self.settings.on_contaminated == "cut"

    @property
    def marks_test_items(self) -> bool:
        return self.settings.marks_test_items

    @property
    def compares_near(self) -> bool:
        return self.settings.dedup == "near"

    @cached_property
    def columns(self) -> tuple["Column", ...]:
        """The columns that are written next to the ids, none as a rule."""
        if not self.settings.columns:
            return ()
        from tokenmill.reading.columns import Column

        return tuple(Column(name, bits) for name, bits in self.settings.columns.items())

    @property
    def needs_hashes(self) -> bool:
        """Whether documents are compared, split by their hash, or known by it."""
        is_known_by_hash = self.settings.val_fraction > 0 or self.settings.keeps_facts
        return is_known_by_hash or self.compares_documents

    @property
    def begin_token_id(self) -> int | None:
        """The id before every document, if there is one."""
        if self.settings.begin_token is None:
            return None
        return find_begin_token(self.tokenizer, self.settings.begin_token)

    @property
    def dtype(self) -> np.dtype[Any]:
        return choose_dtype(self.tokenizer, self.settings.dtype)

    def sources_of(self, unit: int) -> tuple[Source, ...]:
        """The files that one unit reads, all or part of one, or several whole ones."""
        where = self.units[unit]
        return self.sources[where.source : where.sources.stop]

    def name_of(self, unit: int) -> str:
        """What one unit reads, for messages."""
        sources = self.sources_of(unit)
        if len(sources) == 1:
            return sources[0].name
        return f"{len(sources):,} files from {sources[0].name} to {sources[-1].name}"

    def is_packed(self, unit: int) -> bool:
        """Whether a unit is a part of a compressed file."""
        where = self.units[unit]
        source = self.sources[where.source]
        if source.compression is None or where.num_sources > 1:
            return False
        return where.start > 0 or where.stop < source.size

    @property
    def packed_sources(self) -> list[int]:
        """The compressed sources that are cut into units, in order."""
        if not any(source.compression for source in self.sources):
            return []
        units = range(len(self.units))
        return sorted({self.units[unit].source for unit in units if self.is_packed(unit)})

    @property
    def held_out_splits(self) -> list[str]:
        """The validation sets that are made from files, in the order of their files."""
        return list(dict.fromkeys(source.split for source in self.sources if source.split))

    @property
    def bytes_in(self) -> int:
        """Bytes to be read, compressed where the files are."""
        return sum(source.size for source in self.sources)


def begin(
    plan: Plan,
    tokenizer: Tokenizer | None,
    *,
    restart: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Plan:
    """Write the plan, or resume the one that is in the workspace, if it is the same.

    With `restart` a plan that differs is thrown away, with all that was done for it.
    """
    workspace = plan.workspace
    found = read_plan(workspace)
    if found is not None:
        differences = _list_all_differences(plan, found, tokenizer)
        is_tolerant = found.settings.on_bad_input == "error" != plan.settings.on_bad_input
        if not differences or (is_tolerant and len(differences) == 1):
            workspace.drop(FAILED)
            plan = replace(found, settings=plan.settings)  # what is done held no bad input
        else:
            kept = [os.path.basename(s.path) for s in plan.sources if workspace.holds(s.path)]
            kept.append(HUB)
            if not restart:
                _refuse_other_work(plan, found, differences, tokenizer, kept)
                say(f"starting over: {workspace.title} holds work with other settings or inputs")
            workspace.clear(keep=kept, shards=restart)
            found = None
    if found is None and tokenizer is not None:
        keep_tokenizer(workspace, tokenizer)
    data = json.dumps(plan.to_json()).encode()  # not orjson: paths may not be UTF-8
    workspace.keep(PLAN, data)
    if plan.settings.map is not None:
        from tokenmill.preparation.stages.filtered_text import keep_map_folder

        keep_map_folder(plan)
    return plan


def _refuse_other_work(
    plan: Plan, found: Plan, differences: list[str], tokenizer: Tokenizer | None, kept: list[str]
) -> None:
    """Refuse to throw away work of other settings or inputs, unless it is little or of no use.

    It is of no use if an input could not be read, and only the inputs are others now.
    """
    workspace = plan.workspace
    if not workspace.is_worth_keeping(but=kept):
        return
    same_inputs = replace(plan, sources=found.sources)
    is_repaired = not _list_all_differences(same_inputs, found, tokenizer)
    if is_repaired and workspace.has(FAILED):
        return
    hint = "use another folder, repeat the first command, or start again: overwrite=True"
    if plan.previous is not None:
        hint = f"repeat the first command, or remove {workspace.name} to forget it"
    raise other_settings(f"{workspace.title} holds a preparation", differences, hint)


def load_tokenizer(settings: Settings) -> Tokenizer | None:
    """The tokenizer by name or path; None when it is yet to be learned from the input."""
    name = settings.tokenizer
    if name == "chars":
        if settings.begin_token is not None:
            raise ValueError(
                f"begin_token={settings.begin_token!r}: chars has no special tokens; leave it out"
            )
        return None
    tokenizer = load(name, end_of_text=settings.end_of_text, pattern=settings.token_pattern)
    if settings.begin_token is not None:
        tokenizer = with_begin_token(tokenizer, settings.begin_token)
    return tokenizer


def keep_tokenizer(workspace: Workspace, tokenizer: Tokenizer) -> None:
    """Put the tokenizer where every task finds it."""
    data = orjson.dumps(tokenizer.state(), option=orjson.OPT_INDENT_2)
    workspace.keep(TOKENIZER_FILE, data)
    _load_kept_tokenizer.remember(workspace.place, tokenizer)


def read_plan(workspace: Workspace) -> Plan | None:
    """The plan in the workspace, or None."""
    return load_plan(workspace.place) if workspace.has(PLAN) else None


@read_once(PLAN)
def load_plan(workspace: Workspace, data: bytes) -> Plan:
    """The plan of a preparation that was begun; tasks ask for it by the place of their work."""
    known = json.loads(data)
    version = known.pop("version")
    if version != PLAN_VERSION:
        raise PrepareError(
            f"{workspace.title} holds a preparation that another version of tokenmill started "
            f"(plan version {version}, here {PLAN_VERSION})",
            hint=f"finish it with that version, or remove {workspace.name} to start again",
        )
    known["settings"] = Settings(**known["settings"])
    known["sources"] = tuple(Source(**source) for source in known["sources"])
    known["units"] = tuple(Unit(*unit) for unit in known["units"])
    return Plan(workspace, **known)


def _list_all_differences(wanted: Plan, found: Plan, tokenizer: Tokenizer | None) -> list[str]:
    differences = list_differences(wanted.settings, wanted.sources, found)
    if wanted.previous != found.previous:
        differences.append(f"dataset added to   {found.previous} -> {wanted.previous}")
    if wanted.destination != found.destination:
        differences.append(f"goes to   {found.destination} -> {wanted.destination}")
    if tokenizer is not None and found.settings.tokenizer == wanted.settings.tokenizer:
        kept, now = found.tokenizer.fingerprint, tokenizer.fingerprint
        if kept != now:
            differences.append(f"tokenizer {wanted.settings.tokenizer}   {kept} -> {now}")
    return differences


def other_settings(what: str, differences: list[str], hint: str) -> SettingsMismatchError:
    """An error that lists what differs, a line each."""
    lines = "".join(f"\n       {line}" for line in differences)
    return SettingsMismatchError(f"{what} with other settings or inputs{lines}", hint=hint)


def list_differences(wanted: Settings, sources: Sequence[Source], found: Plan) -> list[str]:
    """What differs, a line each: first settings, then inputs."""
    differences = list_other_settings(found.settings.to_json(), wanted.to_json())
    before = {source.name: source for source in found.sources}
    now = {source.name: source for source in sources}
    differences += [f"input {name}   is new" for name in now if name not in before]
    differences += [f"input {name}   is gone" for name in before if name not in now]
    for name in now:
        for field in ("size", "mtime_ns", "kind", "compression", "split") if name in before else ():
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


@read_once(TOKENIZER_FILE)
def _load_kept_tokenizer(_: Workspace, data: bytes) -> Tokenizer:
    return from_state(orjson.loads(data))
