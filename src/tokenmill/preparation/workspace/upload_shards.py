"""Prepare into a bucket: the work is done in a folder, shards are uploaded as they are finished.

Each shard goes up whole and is checked there, then its copy here is removed. The manifest goes
last, under the condition that there is none: two writers cannot both win.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tokenmill.errors import PrepareError, SettingsMismatchError
from tokenmill.preparation.settings import Settings
from tokenmill.preparation.stages.accounts import Summary
from tokenmill.preparation.workspace.folder_contents import sizes_of_files
from tokenmill.preparation.workspace.target import Target, hold_workspace, refuse_strange_folder
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.shards.manifest import FILE_NAME, MAX_BYTES, STATE_FILE_NAME, Manifest
from tokenmill.storage import check_address, join, objects
from tokenmill.text.inputs.open_input import Source


@dataclass(frozen=True)
class RemoteTarget(Target):
    """A dataset in a bucket, made in a folder."""

    remedy: ClassVar[str] = "prepare into a new prefix, or bring the objects back"

    def finished_at(self) -> int:
        """When the manifest was written, in nanoseconds; S3 rounds down to seconds."""
        return objects.stat(join(self.name, FILE_NAME)).modified_ns + 10**9 - 1

    def size_of(self, file: str) -> int | None:
        found = objects.find(join(self.name, file))
        return None if found is None else found.size

    def already_done(self, wanted: Settings, sources: list[Source]) -> Summary | None:
        """As for a folder; what a run left that was killed at its very end is removed."""
        if done := super().already_done(wanted, sources):
            remove_work(self.workspace.out_dir)
        return done

    def finish(self) -> None:
        here = self.workspace.out_dir
        manifest = Manifest.load(here)
        for name in ("README.md", STATE_FILE_NAME):
            objects.upload(here / name, join(self.name, name))
        for name, size in sizes_of_files(manifest).items():
            if (found := objects.stat(join(self.name, name)).size) != size:
                raise PrepareError(
                    f"{join(self.name, name)} has {found:,} bytes, not {size:,} as uploaded",
                    hint="something else writes there; nothing was published",
                )
        objects.put_if(join(self.name, FILE_NAME), manifest.to_bytes(), objects.NEW)
        remove_work(here)


def upload_shard(folder: Path, names: list[str], address: str) -> None:
    """Bring the files of a finished shard to their place, and remove them here."""
    for name in names:
        objects.upload(folder / name, join(address, name))
    for name in names:
        (folder / name).unlink(missing_ok=True)


def remove_work(folder: Path) -> None:
    """Remove everything that a preparation leaves in its work folder."""
    Workspace(folder).remove()
    for name in (FILE_NAME, STATE_FILE_NAME, "README.md"):
        (folder / name).unlink(missing_ok=True)
    for split in (folder / "train", folder / "val", *folder.glob("val_*")):
        shutil.rmtree(split, ignore_errors=True)
    if not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def open_remote_target(
    address: str,
    work_dir: str | os.PathLike[str] | None,
    *,
    append: bool,
    overwrite: bool,
    break_lock: bool,
) -> Iterator[RemoteTarget]:
    """Look at the bucket before anything is done."""
    address = check_address(address)
    if append or overwrite:
        raise ValueError(
            f"a dataset at {address} can be neither added to nor replaced; prepare into a new "
            "prefix, or work on a copy on disk and upload that"
        )
    if work_dir is None:
        raise ValueError(
            f"the way to {address} needs a folder with room for the tokens, which all machines "
            "that take part can see; pass --work_dir DIR"
        )
    if Path(work_dir, FILE_NAME).exists() and not Workspace(Path(work_dir)).plan_file.exists():
        raise SettingsMismatchError(
            f"{work_dir} holds a dataset, so it is no place for the work on another",
            hint="name an empty or new folder",
        )
    refuse_strange_folder(Path(work_dir))  # what is made there is removed again, by name
    with hold_workspace(Path(work_dir), break_lock=break_lock) as workspace:
        data = objects.read_all(join(address, FILE_NAME), at_most=MAX_BYTES)
        found = None if data is None else Manifest.parse(data, where=join(address, FILE_NAME))
        yield RemoteTarget(Path(work_dir), workspace, found, destination=address)
