"""The texts that a preparation reads: in files, or kept in one, as standard input is."""

import functools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import xxhash

from tokenmill.base.address import is_address, is_hub
from tokenmill.base.atomic import new_file
from tokenmill.base.descriptors import rename
from tokenmill.base.human import plural
from tokenmill.base.progress import Progress
from tokenmill.errors import PrepareError, SettingsMismatchError
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.workspace.work_folder import is_ours
from tokenmill.preparation.workspace.workspace import HUB, Workspace
from tokenmill.text.inputs.file_kind import CODE_SUFFIXES, lookalikes, suffixes
from tokenmill.text.inputs.open_input import Source, printable
from tokenmill.text.inputs.sources import count_suffixes, find_sources, in_order, search

STANDARD_INPUT = "standard-input"
Entry = Any
"""A path, glob, address, or `-`; or an iterable of strings or mappings, or a table."""
Inputs = Any  # one entry, or a list of paths
ValInput = Any
"""Inputs for `val`; or several validation sets: {"code": ..., "law": ...}."""
HeldOut = dict[str, list[Entry]]
"""Inputs for validation, by the name of their split."""


class Paths(list[str]):
    """Inputs that are paths, also where there is no such file: those of the command line."""


def as_list(inputs: Inputs) -> list[Entry]:
    """Return one input or several as a list; texts that are held in memory are one input."""
    if isinstance(inputs, str | os.PathLike):
        return [inputs]
    if not isinstance(inputs, Paths):
        from tokenmill.preparation.planning.held_texts import paths_or_texts

        inputs = paths_or_texts(inputs)
    if not (wanted := list(inputs)):
        raise ValueError("no input was given; name files, folders, globs, or - for stdin")
    return wanted


def is_file(entry: Entry) -> bool:
    """Return True for what is read where it is; all else is first kept in the workspace."""
    return isinstance(entry, str | os.PathLike) and entry != "-"


def find_inputs(
    inputs: Inputs,
    held_out: HeldOut,
    out: Path,
    workspace: Workspace,
    settings: Settings,
    progress: Progress,
) -> list[Source]:
    """Return the inputs; what is not in files is first kept in the workspace, to be cut."""
    wanted: dict[str | None, list[Entry]] = dict(held_out.items())
    wanted[None] = [] if held_out and isinstance(inputs, list) and not inputs else as_list(inputs)
    others = [(split, e) for split, entries in wanted.items() for e in entries if not is_file(e)]
    if sum(isinstance(entry, str) for _, entry in others) > 1:
        raise ValueError("standard input (-) is given twice, but it can be read only once")
    files = {split: [entry for entry in wanted[split] if is_file(entry)] for split in wanted}
    sources: list[Source] = []
    if any(files.values()):
        files = {split: [_pin(entry, workspace) for entry in files[split]] for split in files}
        held_out_files = {split: files[split] for split in held_out}
        sources, skipped = search_inputs(files[None], settings, held_out_files)
        if skipped:
            progress.say(
                f"skipped {plural(len(skipped), 'path')} that do not look like text, or hold a "
                f"dataset: {count_suffixes(skipped)} (such as {skipped[0]!r}); to read them, name "
                "the files, or a glob"
            )
    if out.exists():
        _refuse_inside(out, sources)
    kept: dict[str, str | None] = {}  # the same text for validation and training is held out
    for split, entry in others:
        kept.setdefault(_keep(entry, workspace, settings, progress), split)
    sources += [replace(find_sources([path])[0], split=split) for path, split in kept.items()]
    return in_order(sources) if kept else sources


def _pin(entry: Entry, workspace: Workspace) -> Entry:
    if not is_hub(entry):
        return entry
    from tokenmill.hub.hub_inputs import pin

    record = workspace.spool / HUB
    if not record.exists() and workspace.has(HUB):
        record.write_bytes(workspace.read(HUB))
    address = pin(entry, record)
    workspace.keep(HUB, record.read_bytes())
    return address


def search_inputs(
    inputs: Sequence[Entry], settings: Settings, held_out: Mapping[str, Sequence[Entry]]
) -> tuple[list[Source], list[str]]:
    """Return files by name, folder or glob, and paths that were skipped, such as datasets."""
    options = {"count_unreadable": settings.on_bad_input != "error"}
    return search(inputs, is_ours, **options, held_out=held_out, gitignore=settings.gitignore)


def _refuse_inside(out: Path, sources: list[Source]) -> None:
    """Refuse text inside the output: a dataset may be replaced as a whole."""
    if not out.exists():
        return
    about = os.stat(out)

    @functools.cache
    def is_inside(folder: str) -> bool:
        """Compare folders, not their names: some systems ignore the case of letters."""
        above = os.path.dirname(folder)
        is_same = os.path.samestat(os.stat(folder), about)
        return is_same or (above != folder and is_inside(above))

    for source in sources:
        path = source.path
        if not is_address(path) and is_inside(os.path.dirname(os.path.realpath(path))):
            raise SettingsMismatchError(
                f"the input {printable(source.path)} is inside the output {printable(str(out))}",
                hint="name an output that holds no text; nothing was written or removed",
            )


def _keep(entry: Entry, workspace: Workspace, settings: Settings, progress: Progress) -> str:
    """Write standard input, or texts, to a file named by its content: it can be given again."""
    if isinstance(entry, str):
        blocks, name, suffix = _standard_input(), STANDARD_INPUT, ""
    else:
        from tokenmill.preparation.planning.held_texts import json_lines

        blocks, name, suffix = json_lines(entry, settings.read_rules), "texts", ".jsonl"
    arriving = workspace.spool / name
    meter = progress.begin(name, None, in_bytes=True)
    hasher = xxhash.xxh3_128()
    with new_file(arriving) as file, progress.watch(meter):
        for block in blocks:
            file.write(block)
            hasher.update(block)
            meter.advance(len(block))
    kept = workspace.spool / f"{name}-{hasher.hexdigest()[:16]}{suffix}"
    os.utime(arriving, ns=(0, 0))
    rename(arriving, kept)
    return workspace.take_in(kept)


def _standard_input() -> Iterator[bytes]:
    stream = getattr(sys.stdin, "buffer", None)  # None: the process was started without one
    if stream is None:
        raise PrepareError(
            "there is no standard input to read",
            hint="pipe text into the command, as in: cat a.txt | tokenmill prepare - -o OUT",
        )
    return iter(lambda: stream.read(1 << 20), b"")


def notes_on_inputs(settings: Settings, sources: Sequence[Source]) -> list[str]:
    """Return sentences to read before hours of work."""
    notes = lookalikes(list(sources), settings.read_rules.fields.names[0])
    changes = []
    if settings.clean:
        changes.append("cleaning shortens indentation to one space (clean=False keeps it)")
    if settings.dedup == "lines":
        changes.append(
            "repeated lines are dropped, in all files "
            '(dedup="documents" or dedup="none" keeps them)'
        )
    code = [source for source in sources if suffixes(source.name)[0] in CODE_SUFFIXES]
    if changes and 2 * sum(source.size for source in code) > sum(source.size for source in sources):
        such = f"most of the input is source code, such as {code[0].name}"
        notes.append(f"{such}: {'; '.join(changes)}")
    return notes
