"""Where the files are that are verified: in a folder, or in a store.

Those in a store are compared by the sizes that it states, and read in a temporary folder.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tokenmill.base.address import is_remote, join
from tokenmill.shards.manifest import PREPARATION_FOLDER


class Folder:
    """Files on a disk."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def size(self, name: str) -> int | str:
        """The size of a file, or why it cannot be looked at."""
        try:
            return os.stat(self._path / name).st_size
        except OSError as error:
            return error.strerror or type(error).__name__

    @contextmanager
    def here(self, names: Sequence[str]) -> Iterator[Path]:
        """A folder with these files."""
        yield self._path

    def names(self) -> list[str]:
        """All files, and folders of work that is not finished."""
        names = []
        for parent, folders, files in os.walk(self._path):
            if PREPARATION_FOLDER in folders:
                folders.remove(PREPARATION_FOLDER)
                names.append(Path(parent, PREPARATION_FOLDER).relative_to(self._path).as_posix())
            names += [Path(parent, name).relative_to(self._path).as_posix() for name in files]
        return names


class Stored:
    """Objects in a store. Those at https cannot be listed: each is looked at."""

    def __init__(self, address: str) -> None:
        from tokenmill.base.address import WRITABLE, split
        from tokenmill.stores import objects

        self._address = address.rstrip("/")
        self._sizes = dict[str, int]()
        place = split(address)
        self._is_listed = place.scheme in WRITABLE
        if self._is_listed:
            start = len(place.key) + 1 if place.key else 0
            records = objects.list_records(self._address)
            self._sizes = {record.key[start:]: record.size for record in records}

    def size(self, name: str) -> int | str:
        """The size of an object, or that there is none."""
        if not self._is_listed:
            from tokenmill.stores import objects

            found = objects.find(join(self._address, name))
            return "no such object" if found is None else found.size
        return self._sizes.get(name, "no such object")

    @contextmanager
    def here(self, names: Sequence[str]) -> Iterator[Path]:
        """A folder with copies of these objects, for as long as they are looked at."""
        from tokenmill.stores.object_file import ObjectFile

        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                with ObjectFile(join(self._address, name)) as source, path.open("xb") as copy:
                    shutil.copyfileobj(source, copy, 4 << 20)
            yield Path(folder)

    def names(self) -> list[str]:
        """All objects, but for the hashes of blocks."""
        return [name for name in self._sizes if not name.startswith("block_hashes-")]


def place_of(where: Path | str) -> Folder | Stored:
    """The place that a path or an address names."""
    return Stored(str(where)) if is_remote(where) else Folder(Path(where))
