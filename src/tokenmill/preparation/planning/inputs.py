"""Which texts a preparation reads: files, folders, globs, and standard input kept in a file."""

import functools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tokenmill.base.address import is_remote
from tokenmill.base.atomic import new_file
from tokenmill.base.descriptors import rename
from tokenmill.base.hashing import hash_file
from tokenmill.base.human import plural
from tokenmill.base.progress import Progress
from tokenmill.errors import PrepareError, SettingsMismatchError
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.workspace.work_folder import STANDARD_INPUT, Workspace, is_ours
from tokenmill.text.inputs.file_kind import CODE_SUFFIXES, lookalikes, suffixes
from tokenmill.text.inputs.open_input import Source, printable
from tokenmill.text.inputs.sources import find_sources, in_order, search

Entry = str | os.PathLike[str]
Inputs = Entry | Sequence[Entry]
ValInput = Inputs | Mapping[str, Inputs]
"""Files, folders and globs for `val`; or several validation sets: {"code": ..., "law": ...}."""
HeldOut = dict[str, list[Entry]]
"""Inputs for validation, by the name of their split."""


def as_list(inputs: Inputs) -> list[Entry]:
    """Return one input or several as a list."""
    wanted = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    if not wanted:
        raise ValueError("no input was given; name files, folders, globs, or - for stdin")
    return wanted


def find_inputs(
    inputs: Inputs,
    held_out: HeldOut,
    out: Path,
    workspace: Workspace,
    settings: Settings,
    progress: Progress,
) -> list[Source]:
    """Return the inputs; standard input is first kept in the workspace, so that it can be cut."""
    wanted: dict[str | None, list[Entry]] = dict(held_out.items())
    wanted[None] = [] if held_out and not inputs else as_list(inputs)
    piped_to = [split for split, entries in wanted.items() for entry in entries if entry == "-"]
    if len(piped_to) > 1:
        raise ValueError("standard input (-) is given twice, but it can be read only once")
    files = {split: [entry for entry in wanted[split] if entry != "-"] for split in wanted}
    sources: list[Source] = []
    if any(files.values()):
        held_out_files = {split: files[split] for split in held_out}
        sources, skipped = search_inputs(files[None], settings, held_out_files)
        if skipped:
            progress.say(
                f"skipped {plural(len(skipped), 'path')} that do not look like text, or hold a "
                f"dataset (such as {skipped[0]!r}); to read them, name the files, or a glob"
            )
    _refuse_inside(out, sources)
    if not piped_to:
        return sources
    (kept,) = find_sources([_keep_standard_input(workspace, progress)])
    return in_order([*sources, replace(kept, split=piped_to[0])])


def search_inputs(
    inputs: Sequence[Entry], settings: Settings, held_out: Mapping[str, Sequence[Entry]]
) -> tuple[list[Source], list[str]]:
    """Return files by name, folder or glob, and paths that were skipped, such as datasets."""
    count_unreadable = settings.on_bad_input != "error"
    return search(inputs, is_ours, count_unreadable=count_unreadable, held_out=held_out)


def _refuse_inside(out: Path, sources: list[Source]) -> None:
    """Refuse text inside the output: a dataset may be replaced as a whole."""
    about = os.stat(out)

    @functools.cache
    def is_inside(folder: str) -> bool:
        """Compare folders, not their names: some systems ignore the case of letters."""
        above = os.path.dirname(folder)
        is_same = os.path.samestat(os.stat(folder), about)
        return is_same or (above != folder and is_inside(above))

    for source in sources:
        if not is_remote(source.path) and is_inside(os.path.dirname(os.path.realpath(source.path))):
            raise SettingsMismatchError(
                f"the input {printable(source.path)} is inside the output {printable(str(out))}",
                hint="name an output that holds no text; nothing was written or removed",
            )


def _keep_standard_input(workspace: Workspace, progress: Progress) -> Path:
    """Write standard input to a file named by its content: piped again, it is the same input."""
    stream = getattr(sys.stdin, "buffer", None)  # None: the process was started without one
    if stream is None:
        raise PrepareError(
            "there is no standard input to read",
            hint="pipe text into the command, as in: cat a.txt | tokenmill prepare - -o OUT",
        )
    arriving = workspace.root / STANDARD_INPUT
    meter = progress.begin(STANDARD_INPUT, None, in_bytes=True)
    with new_file(arriving) as file, progress.watch(meter):
        while block := stream.read(1 << 20):
            file.write(block)
            meter.advance(len(block))
    kept = workspace.root / f"{STANDARD_INPUT}-{hash_file(arriving)[:16]}"
    os.utime(arriving, ns=(0, 0))
    rename(arriving, kept)
    return kept


def notes_on_inputs(settings: Settings, sources: Sequence[Source]) -> list[str]:
    """Return sentences to read before hours of work."""
    notes = lookalikes(list(sources), settings.text_field)
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
