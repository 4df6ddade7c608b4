"""The target of a preparation: a new folder, a dataset to add to, or one to replace."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from tokenmill.base.address import is_remote
from tokenmill.base.atomic import replace_folder
from tokenmill.base.hashing import read_regular
from tokenmill.base.lock import hold_lock, is_held
from tokenmill.base.signals import stop_on_signals
from tokenmill.errors import (
    LockedError,
    SettingsMismatchError,
    TokenizerMismatchError,
    TokenmillError,
)
from tokenmill.preparation.planning.disk_space import explain_bad_disk
from tokenmill.preparation.planning.plan import (
    list_differences,
    load_tokenizer,
    other_settings,
    read_plan,
)
from tokenmill.preparation.planning.settings import (
    Run,
    Settings,
    SettingsGiven,
    list_other_settings,
)
from tokenmill.preparation.stages.accounts import Summary, summarize
from tokenmill.preparation.workspace.folder_contents import (
    is_ours,
    list_changed_inputs,
    recorded_settings,
    refuse_damaged,
)
from tokenmill.preparation.workspace.recorded_sources import all_sources
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.shards.entries import FileEntry, SourceEntry
from tokenmill.shards.manifest import FILE_NAME, Manifest
from tokenmill.text.inputs.open_input import Source
from tokenmill.tokens.load_tokenizer import check_stated, from_bytes
from tokenmill.tokens.tokenizer import Tokenizer


class Swap:
    """Replace one dataset by another: made next to it, then swapped by two renames.

    `.NAME.tokenmill-new` is the new dataset while it is made; `.NAME.tokenmill-old` the old one,
    for the moment of the swap (open readers keep their files). A process can be killed between the
    two renames; the next one finishes the swap.
    """

    def __init__(self, out_dir: Path) -> None:
        self.out_dir = Path(os.path.realpath(out_dir))  # also when it is "." or a link
        self.new = self.out_dir.with_name(f".{self.out_dir.name}.tokenmill-new")
        self.old = self.out_dir.with_name(f".{self.out_dir.name}.tokenmill-old")

    def swap(self) -> None:
        shutil.rmtree(self.old, ignore_errors=True)
        replace_folder(self.new, self.out_dir, self.old)
        Workspace(self.out_dir).remove()

    def recover(self) -> None:
        """Finish a swap that was cut short."""
        locks = [Workspace(at).lock_file for at in (self.new, self.out_dir)]
        if not self.old.exists() or any(is_held(lock) for lock in locks):
            return
        if self.out_dir.exists():
            shutil.rmtree(self.old, ignore_errors=True)
        elif self.new.exists():
            self.swap()
        else:
            os.rename(self.old, self.out_dir)


@dataclass(frozen=True)
class Target:
    """The folder that is written, and the dataset that is in it already, if any."""

    out_dir: Path
    """The folder that the user named."""
    workspace: Workspace
    """In the same folder, or in one next to it when a dataset is replaced."""
    found: Manifest | None
    """The dataset that is there."""
    append: bool = False
    swap: Swap | None = None
    """Set when a dataset is replaced."""
    destination: str | None = None
    """Address that shards are uploaded to."""
    remedy: ClassVar[str] = "pass overwrite=True to make it again, or bring the files back"
    """Hint for a dataset that is damaged."""

    @property
    def name(self) -> str:
        return self.destination or str(self.out_dir)

    def finished_at(self) -> int:
        """Time at which the manifest that is there was written, in nanoseconds."""
        return os.stat(self.out_dir / FILE_NAME).st_mtime_ns

    def size_of(self, file: str) -> int | None:
        """Size of a file of the dataset that is there; None if it is gone."""
        try:
            return os.stat(self.out_dir / file).st_size
        except OSError:
            return None

    def read_file(self, file: FileEntry) -> bytes:
        """Read a small file of the dataset that is there."""
        return read_regular(self.out_dir / file.file)

    @cached_property
    def known_sources(self) -> Sequence[SourceEntry]:
        """Every input of the dataset that is there."""
        return () if self.found is None else all_sources(self.found, self.read_file)

    def folder_for(self, settings: Settings, sources: Sequence[Source]) -> str:
        """Folder inside the dataset that new files go to, with a slash at its end."""
        return ""

    @property
    def replaces(self) -> bool:
        """True if a dataset is replaced."""
        return self.swap is not None

    @property
    def previous(self) -> Manifest | None:
        return self.found if self.append else None

    @property
    def previous_hash(self) -> str | None:
        return None if self.previous is None else self.previous.digest

    @property
    def splits_by_hash(self) -> bool:
        """True if documents are added to a dataset that was split by hash."""
        return self.previous is not None and self.previous.settings.get("split") == "hash"

    def settings(self, given: SettingsGiven) -> Settings:
        """Return the settings asked for; the others are as in the dataset that is added to."""
        if self.previous is None:
            return Settings(**given)
        theirs = recorded_settings(self.previous)
        for name, value in given.items():
            must_be = self.previous.dtype if name == "dtype" else theirs.get(name)
            is_fixed = name in ("begin_token", "dtype", "tokens_per_shard", "val_fraction")
            if is_fixed and value != must_be:
                raise SettingsMismatchError(
                    f"{self.name} was made with {name} {must_be!r}, and what is added to it "
                    f"must be as well, not {value!r}",
                    hint=f"leave {name} out, or prepare into another folder",
                )
        fixed = ("tokenizer", "end_of_text", "begin_token", "token_pattern", "dtype")
        return Settings(**{**theirs, **{k: v for k, v in given.items() if k not in fixed}})

    def tokenizer(self, given: SettingsGiven) -> Tokenizer | None:
        """Return the tokenizer asked for, or of the dataset; None if it is yet to be learned."""
        if self.previous is None:
            return load_tokenizer(Settings(**given))
        record = self.previous.tokenizer
        file = f"{self.name}/{record.state.file}"
        stored = from_bytes(self.read_file(record.state), file)
        check_stated(
            stored,
            file,
            vocab_size=record.vocab_size,
            end_of_text_id=record.end_of_text_id,
            fingerprint=record.fingerprint,
        )
        begin_token = recorded_settings(self.previous).get("begin_token")
        asked = replace(Settings(**given), begin_token=begin_token)
        if "tokenizer" in given and not asked.tokenizer == record.name == "chars":
            wanted = load_tokenizer(asked)
            if wanted is None or wanted.fingerprint != stored.fingerprint:
                raise TokenizerMismatchError(
                    f"{self.name} was made with the tokenizer {record.name!r} (fingerprint "
                    f"{stored.fingerprint}), not with {asked.tokenizer!r}",
                    hint="leave tokenizer out, or prepare into another folder",
                )
        return stored

    def already_done(self, wanted: Settings, sources: list[Source]) -> Summary | None:
        """Return the outcome if the very same was asked for and finished before.

        None where it is still to be made; what is there and is something else is refused.
        """
        if self.found is None:
            return None
        was_published_here = self.workspace.has_published(self.found.digest)
        begun = read_plan(self.workspace) if was_published_here else None
        is_same = begun is not None and not list_differences(wanted, sources, begun)
        if was_published_here and not is_same:
            self.workspace.clear()
        if not is_same and not self.append:
            self._refuse_differences(self.found, wanted, sources)
        refuse_damaged(self.name, self.found, self.size_of, self.remedy)
        if self.append and not is_same:
            self._refuse_same_again(sources)
            return None
        if is_same:
            self.workspace.remove()
        done = summarize(self.name, self.found, ["it was there already, whole"])
        done.already_there = True
        return done

    def _refuse_differences(self, found: Manifest, wanted: Settings, sources: list[Source]) -> None:
        lines = list_other_settings(recorded_settings(found), wanted.to_json(for_manifest=True))
        lines += list_changed_inputs(found, self.known_sources, sources, self.finished_at())
        if lines:
            raise other_settings(
                f"{self.name} holds a dataset",
                lines,
                hint="use another folder; or append=True adds to it, overwrite=True replaces it",
            )

    def _in_already(self, sources: Sequence[Source]) -> list[str]:
        """Names of the sources that seem to be in the dataset that is added to."""
        if self.previous is None:
            return []
        recorded = {(source.name, source.num_bytes) for source in self.known_sources}
        return [source.name for source in sources if (source.name, source.size) in recorded]

    def _refuse_same_again(self, sources: list[Source]) -> None:
        if len(self._in_already(sources)) == len(sources):
            inputs = "the input is" if len(sources) == 1 else f"all {len(sources)} inputs are"
            raise SettingsMismatchError(
                f"{inputs} in {self.name} already, by name and size (such as {sources[0].name!r})",
                hint="nothing was added; `tokenmill inspect` lists what the dataset is made of; a "
                "file that only happens to have the same name and size can be added under another "
                "name: rename it",
            )

    def notes(self, settings: Settings, sources: Sequence[Source]) -> list[str]:
        """Return a note if some inputs seem to be in the dataset already."""
        again = self._in_already(sources)
        if not again:
            return []
        became = {
            "none": "they were added once more, for nothing is compared without deduplication",
            "lines": "lines that were there are dropped",
            "documents": "documents that were there are dropped",
        }[settings.dedup]
        shown = ", ".join(map(repr, again[:3])) + (", ..." if len(again) > 3 else "")
        return [
            f"{len(again):,} of {len(sources):,} inputs seem to be in the dataset already, by name "
            f"and size ({shown}): {became}"
        ]

    def finish(self) -> None:
        """Remove the workspace; where a dataset is replaced, put the new one in its place."""
        if self.swap is not None:
            self.swap.swap()
        self.workspace.remove()


@contextmanager
def open_target(
    out_dir: str | os.PathLike[str], run: Run, *, append: bool, overwrite: bool
) -> Iterator[Target]:
    """Look at the output and lock it before anything is done.

    Where nothing was started, nothing is left there. Errors of the disk are explained.
    """
    if append and overwrite:
        raise ValueError("append and overwrite exclude each other; give one of them")
    options = {"append": append, "overwrite": overwrite, "break_lock": run.break_lock}
    work_dir = run.work_dir
    with stop_on_signals(), explain_bad_disk(Path(work_dir or out_dir)):
        if isinstance(out_dir, str) and is_remote(out_dir):
            from tokenmill.preparation.workspace.remote_target import open_remote_target

            with open_remote_target(out_dir, work_dir, **options) as target:
                yield target
            return
        if work_dir is not None:
            raise ValueError(
                f"work_dir is {os.fspath(work_dir)}, but the work on a dataset in a folder is done "
                "in that folder; leave it out"
            )
        with _open_folder(Path(out_dir), **options) as target:
            yield target


@contextmanager
def _open_folder(out: Path, *, append: bool, overwrite: bool, break_lock: bool) -> Iterator[Target]:
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file, but a dataset is a folder; name another output")
    swap = Swap(out)
    swap.recover()
    if append:
        Manifest.load(out)
    else:
        refuse_strange_folder(out)
    if overwrite and is_held(Workspace(out).lock_file) and not break_lock:
        raise LockedError(f"{out} is being written by another process", hint="wait for it to end")
    with hold_workspace(swap.new if overwrite else out, break_lock=break_lock) as workspace:
        if overwrite:
            yield Target(out, workspace, None, swap=swap)
        else:
            found = Manifest.load(out) if append or (out / FILE_NAME).exists() else None
            yield Target(out, workspace, found, append)


@contextmanager
def hold_workspace(folder: Path, *, break_lock: bool) -> Iterator[Workspace]:
    """Make the workspace and lock it; where nothing was started, leave nothing there."""
    workspace = Workspace(folder)
    existed = folder.exists()
    with ExitStack() as held:
        try:
            workspace.root.mkdir(parents=True, exist_ok=True)
            held.enter_context(hold_lock(workspace.lock_file, break_lock=break_lock))
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
                    with suppress(OSError):
                        folder.rmdir()


def refuse_strange_folder(out: Path) -> None:
    """Refuse a folder that holds something else: it is not ours to fill or to replace."""
    if out.exists() and not is_ours(out) and (strangers := sorted(os.listdir(out))):
        raise SettingsMismatchError(
            f"{out} holds {len(strangers)} files or folders but no dataset "
            f"(such as {strangers[0]!r})",
            hint="name an empty or new folder; only what tokenmill made there is ever replaced",
        )
