"""Where a preparation goes: a new folder, a dataset that is added to, or one that is replaced."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import xxhash

from tokenmill.errors import SettingsMismatchError, TokenmillError
from tokenmill.preparation.settings import Settings
from tokenmill.preparation.summary import Summary, summarize
from tokenmill.preparation.workspace import Workspace, new_file
from tokenmill.shards.files import hash_file
from tokenmill.shards.manifest import FILE_NAME, Manifest
from tokenmill.storage import is_remote
from tokenmill.text.sources import Source, find_sources

STANDARD_INPUT = "standard-input"
Inputs = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Target:
    """The folder that is written, and the dataset that is in it already, if any."""

    out_dir: Path
    """What the user named."""
    workspace: Workspace
    """Where the work is done: the same folder, or one beside it when a dataset is replaced."""
    found: Manifest | None
    append: bool

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self.out_dir)

    @property
    def destination(self) -> str | None:
        """Where shards are uploaded to, if they are."""
        return None

    def finished_at(self) -> int:
        """When the manifest that is there was written, in nanoseconds."""
        return os.stat(self.out_dir / FILE_NAME).st_mtime_ns

    @property
    def previous(self) -> Manifest | None:
        """The dataset that is added to, when one is."""
        return self.found if self.append else None

    @property
    def previous_hash(self) -> str | None:
        """What names that dataset in the plan."""
        if self.previous is None:
            return None
        return xxhash.xxh3_128_hexdigest(self.previous.to_bytes())

    def settings(self, given: dict[str, Any]) -> Settings:
        """The settings asked for; what is not given is as in the dataset that is added to."""
        if self.previous is None:
            return Settings(**given)
        theirs = {k: v for k, v in self.previous.settings.items() if k in Settings.names()}
        settings = Settings(**{**theirs, **given})
        for name in ("tokenizer", "dtype", "tokens_per_shard"):
            if name in given and given[name] != theirs.get(name):
                raise SettingsMismatchError(
                    f"{self.out_dir} was made with {name} {theirs.get(name)!r}, and what is added "
                    f"to it must be as well, not {given[name]!r}",
                    hint=f"leave {name} out, or prepare into another folder",
                )
        return settings

    def sources(self, inputs: Inputs) -> list[Source]:
        """The inputs; standard input is first kept in the workspace, so that it can be cut."""
        wanted = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
        if not wanted:
            raise ValueError("no input was given; name files, folders, globs, or - for stdin")
        if "-" not in wanted:
            return find_sources(wanted)
        if len(wanted) > 1:
            raise ValueError(f"standard input (-) cannot be mixed with other inputs: {wanted}")
        kept = self._keep_standard_input()
        (source,) = find_sources([kept])
        return [replace(source, name=STANDARD_INPUT)]

    def _keep_standard_input(self) -> Path:
        kept = self.workspace.root / STANDARD_INPUT
        arriving = kept if not kept.exists() else kept.with_suffix(".again")
        with new_file(arriving) as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        if arriving != kept:
            same = hash_file(arriving) == hash_file(kept)
            arriving.unlink()
            if not same:
                raise SettingsMismatchError(
                    f"{self.out_dir} holds a preparation of another standard input",
                    hint="pipe the same data again, or use another folder",
                )
        return kept

    def already_done(self, wanted: Settings, sources: list[Source]) -> Summary | None:
        """The outcome, when the very same was asked for and finished before; else raise or None."""
        if self.found is None:
            return None
        recorded = {(source.name, source.bytes) for source in self.found.sources}
        ours = {(source.name, source.size) for source in sources}
        if self.append:
            if ours <= recorded:
                raise SettingsMismatchError(
                    f"all {len(ours)} inputs are in {self.out_dir} already, by name and size",
                    hint="nothing was added; `tokenmill inspect` lists what the dataset is made of",
                )
            return None
        theirs = {k: v for k, v in self.found.settings.items() if k in Settings.names()}
        finished_at = self.finished_at()
        newer = [source.name for source in sources if source.mtime_ns > finished_at]
        asked = wanted.to_record()
        differences = [
            f"{name}   {theirs.get(name)!r} -> {asked[name]!r}"
            for name in asked
            if asked[name] != theirs.get(name)
        ]
        differences += [f"input {name}   {size:,} bytes is new" for name, size in ours - recorded]
        differences += [f"input {name}   {size:,} bytes is gone" for name, size in recorded - ours]
        differences += [f"input {name}   changed after the dataset was made" for name in newer]
        if differences:
            raise SettingsMismatchError(
                f"{self.out_dir} holds a dataset of other settings or inputs\n"
                + "\n".join(f"       {line}" for line in differences),
                hint="use another folder, or pass --append to add to it, --overwrite to replace it",
            )
        return summarize(self.name, self.found, ["it was there already, whole"])

    def finish(self) -> None:
        """Remove the workspace; where a dataset is replaced, put the new one in its place."""
        self.workspace.remove()
        if self.workspace.out_dir != self.out_dir:
            old = self.out_dir.with_name(f".{self.out_dir.name}.old")
            if self.out_dir.exists():
                os.rename(self.out_dir, old)
            os.rename(self.workspace.out_dir, self.out_dir)
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def open_target(
    out_dir: str | os.PathLike[str],
    *,
    append: bool,
    overwrite: bool,
    work_dir: str | os.PathLike[str] | None = None,
) -> Iterator[Target]:
    """Look at the output before anything is done."""
    if isinstance(out_dir, str) and is_remote(out_dir):
        from tokenmill.preparation.remote import open_remote_target

        with open_remote_target(out_dir, work_dir, append=append, overwrite=overwrite) as target:
            yield target
        return
    if work_dir is not None:
        raise ValueError(
            f"work_dir is {os.fspath(work_dir)}, but the work on a dataset in a folder is done in "
            "that folder; leave it out"
        )
    out = Path(out_dir)
    if append and overwrite:
        raise ValueError("append and overwrite exclude each other; give one of them")
    found = Manifest.load(out) if append or (out / FILE_NAME).exists() else None
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file, but a dataset is a folder; name another output")
    if found is None and not overwrite:
        _refuse_strange_folder(out)
    folder = out.with_name(f".{out.name}.new") if overwrite else out
    with open_folder(folder) as workspace:
        yield Target(out, workspace, None if overwrite else found, append)


@contextmanager
def open_folder(folder: Path) -> Iterator[Workspace]:
    """Make the workspace; leave nothing behind where nothing was begun."""
    workspace = Workspace(folder)
    existed = folder.exists()
    try:
        workspace.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TokenmillError(
            f"cannot write to {folder}: {error.strerror}", hint="nothing was tokenized yet"
        ) from error
    try:
        yield workspace
    finally:
        if workspace.root.exists() and not workspace.plan_file.exists():
            workspace.remove()
            if not existed:
                folder.rmdir()


def _refuse_strange_folder(out: Path) -> None:
    """A folder that holds something else is not ours to fill."""
    if not out.exists() or Workspace(out).root.exists():
        return
    strangers = sorted(os.listdir(out))
    if strangers:
        raise SettingsMismatchError(
            f"{out} holds {len(strangers)} files or folders but no dataset "
            f"(such as {strangers[0]!r})",
            hint="name an empty or new folder, or pass --overwrite to replace what is there",
        )
