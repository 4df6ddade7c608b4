"""What a command did to its files, from strace, and how much of that a loss of power leaves.

    disk = Disk(files, folder)                  # the files before, all of them on the disk
    for call in read_trace(log):
        disk.apply(call)                        # then disk.unsynced(), disk.after_a_loss(chance)

A file is on the disk as it was when it was last synced; a name, as its folder was when that was
last synced. All else may be there or not: any bytes of a file, in any combination with others; of
the changes of names in a folder, the first ones (file systems with a journal keep their order).
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

OPENED = ("openat", "dup", "dup2", "dup3", "fcntl", "lseek", "read", "close")
CHANGED = (
    *("write", "writev", "pwrite64", "ftruncate", "sendfile", "copy_file_range", "mmap"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "fsync", "fdatasync"),
)
OPTIONS = ["-y", "-xx", "-s", "999999999", "-e", f"trace={','.join((*OPENED, *CHANGED))}"]
LINE = re.compile(r"(\d+) +(?:<\.\.\. \w+ resumed>)?(.*)")
CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|0x\w+)")
HEX = r"((?:\\x[0-9a-f]{2})*)"
TEXT = re.compile(f'"{HEX}"')
DESCRIPTOR = re.compile(f"(\\d+|AT_FDCWD)<{HEX}>")
HIDDEN_WRITES = ("sendfile", "copy_file_range")


class Call(NamedTuple):
    """One system call that succeeded."""

    name: str
    arguments: str
    returned: int

    @property
    def texts(self) -> list[bytes]:
        return [_decode(text) for text in TEXT.findall(self.arguments)]

    @property
    def descriptors(self) -> list[tuple[str, str]]:
        """(number, path) of each file descriptor among the arguments."""
        return [(n, _decode(path).decode()) for n, path in DESCRIPTOR.findall(self.arguments)]

    @property
    def numbers(self) -> list[int]:
        return [int(word) for word in re.findall(r"(?:^|, )(\d+)(?=,|$)", self.arguments)]


def _decode(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def read_trace(log: Path) -> Iterator[Call]:
    """The calls of a log of strace with OPTIONS, each where it ended."""
    begun: dict[str, str] = {}
    for line in log.read_text(errors="replace").splitlines():
        if (found := LINE.fullmatch(line)) is None:
            continue
        pid, said = found.groups()
        said = begun.pop(pid, "") + said
        if said.endswith("<unfinished ...>"):
            begun[pid] = said.removesuffix("<unfinished ...>")
        elif (call := CALL.match(said)) and not call[3].startswith("-"):
            yield Call(call[1], call[2], int(call[3], 0))


@dataclass(eq=False)
class File:
    """A file or a folder: as it is, and as it was when it was last synced."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytes | None = None
    entries: "dict[str, File] | None" = None
    """The names in a folder; None for a file."""
    synced_entries: "dict[str, File]" = field(default_factory=dict)
    changes: "list[tuple[str, File | None]]" = field(default_factory=list)
    """Of the names since they were synced, in their order; None: it was taken away."""

    def sync(self) -> None:
        self.synced = bytes(self.data)
        self.synced_entries = dict(self.entries or {})
        self.changes.clear()


@dataclass
class Opened:
    """What a file descriptor stands for."""

    file: File
    at: int = 0
    appends: bool = False


class Disk:
    """The folder of a command while it runs."""

    def __init__(self, files: dict[str, bytes], root: Path) -> None:
        self._root_path, self.root = root, File(entries={})
        self._opened: dict[str, Opened] = {}
        for name, data in files.items():
            *folders, last = name.split("/")
            inside = self.root
            for folder in folders:
                inside = inside.entries.setdefault(folder, File(entries={}))
            inside.entries[last] = File(bytearray(data))
        for _, file in self.walk():
            file.sync()
        self.root.sync()

    def walk(self, inside: File | None = None, above: str = "") -> Iterator[tuple[str, File]]:
        """All files and folders, by name."""
        for name, file in ((inside or self.root).entries or {}).items():
            yield above + name, file
            yield from self.walk(file, f"{above}{name}/") if file.entries is not None else ()

    def name_of(self, path: str) -> str | None:
        """A path relative to the root; None outside of it."""
        try:
            name = str((self._root_path / path).relative_to(self._root_path))
        except ValueError:
            return None
        return None if ".." in name or name.endswith("(deleted)") else name

    def find(self, name: str | None) -> File | None:
        file: File | None = self.root
        for part in [] if name == "." else (name or "//").split("/"):
            file = (file.entries or {}).get(part) if file is not None else None
        return file

    def apply(self, call: Call) -> str | None:
        """Do what a call did; returns the name that it gave to a file, if it did."""
        if call.name in HIDDEN_WRITES:
            raise AssertionError(f"{call.name}: what is written so is not in the trace")
        method = getattr(self, f"_{call.name.removesuffix('2').removesuffix('at')}", None)
        return method(call) if method is not None else None

    # Descriptors

    def _open(self, call: Call) -> None:
        name = self._named(call)[0]
        if name is None:
            return
        file = self.find(name)
        if file is None:
            if "O_CREAT" not in call.arguments:
                return
            file = File()
            self._put(name, file)
        if "O_TRUNC" in call.arguments:
            file.data.clear()
        self._opened[str(call.returned)] = Opened(file, 0, "O_APPEND" in call.arguments)

    def _dup(self, call: Call) -> None:
        if (opened := self._of(call)) is not None:
            self._opened[str(call.returned)] = opened

    def _dup3(self, call: Call) -> None:
        self._dup(call)

    def _fcntl(self, call: Call) -> None:
        if "F_DUPFD" in call.arguments:
            self._dup(call)

    def _lseek(self, call: Call) -> None:
        if (opened := self._of(call)) is not None:
            opened.at = call.returned

    def _read(self, call: Call) -> None:
        if (opened := self._of(call)) is not None:
            opened.at += call.returned

    def _close(self, call: Call) -> None:
        self._opened.pop(call.descriptors[0][0] if call.descriptors else "", None)

    def _mmap(self, call: Call) -> None:
        if "MAP_SHARED" in call.arguments and "PROT_WRITE" in call.arguments and self._of(call):
            raise AssertionError("mmap: what is written so is not in the trace")

    def _of(self, call: Call) -> Opened | None:
        return self._opened.get(call.descriptors[0][0]) if call.descriptors else None

    # Bytes

    def _write(self, call: Call) -> None:
        if (opened := self._of(call)) is not None:
            opened.at = len(opened.file.data) if opened.appends else opened.at
            self._set(opened.file, opened.at, b"".join(call.texts)[: call.returned])
            opened.at += call.returned

    def _writev(self, call: Call) -> None:
        self._write(call)

    def _pwrite64(self, call: Call) -> None:
        if (opened := self._of(call)) is not None:
            self._set(opened.file, call.numbers[-1], call.texts[0][: call.returned])

    @staticmethod
    def _set(file: File, at: int, data: bytes) -> None:
        file.data.extend(bytes(max(0, at - len(file.data))))
        file.data[at : at + len(data)] = data

    def _ftruncate(self, call: Call) -> None:
        if (opened := self._of(call)) is not None:
            size = call.numbers[-1]
            del opened.file.data[size:]
            self._set(opened.file, size, b"")

    def _fsync(self, call: Call) -> None:
        if (opened := self._of(call)) is not None:
            opened.file.sync()

    def _fdatasync(self, call: Call) -> None:
        self._fsync(call)

    # Names

    def _named(self, call: Call) -> list[str | None]:
        """The names that a call is given, each below the folder before it if there is one."""
        folders = [path for _, path in call.descriptors] or [""]
        folders += folders[-1:]
        texts = [text.decode("utf-8", "surrogateescape") for text in call.texts]
        return [self.name_of(str(Path(at, text))) for at, text in zip(folders, texts, strict=False)]

    def _put(self, name: str, file: File | None) -> File | None:
        """Give a name to a file, or take it away; returns what had it."""
        above, _, last = name.rpartition("/")
        folder = self.find(above or ".")
        assert folder is not None, name
        folder.changes.append((last, file))
        before = folder.entries.pop(last, None)
        if file is not None:
            folder.entries[last] = file
        return before

    def _rename(self, call: Call) -> str | None:
        old, new = self._named(call)
        if old is None or new is None:
            return None
        self._put(new, self._put(old, None))
        return new

    def _link(self, call: Call) -> str | None:
        old, new = self._named(call)
        if new is not None and (file := self.find(old)) is not None:
            self._put(new, file)
        return new

    def _unlink(self, call: Call) -> None:
        if (name := self._named(call)[0]) is not None:
            self._put(name, None)

    def _rmdir(self, call: Call) -> None:
        self._unlink(call)

    def _mkdir(self, call: Call) -> None:
        if (name := self._named(call)[0]) is not None:
            self._put(name, File(entries={}))

    # A loss of power

    def unsynced(self) -> list[tuple[str, str]]:
        """Files whose bytes, files and folders whose name a loss of power may take, and which."""
        wrong = []
        for name, file in self.walk():
            above, _, last = name.rpartition("/")
            if self.find(above or ".").synced_entries.get(last) is not file:
                wrong.append((name, "name"))
            if file.entries is None and file.synced != bytes(file.data):
                wrong.append((name, "bytes"))
        return wrong

    def after_a_loss(self, names: str, data: str, chance: random.Random) -> dict[str, bytes | None]:
        """Files by name, None for folders; `names` and `data` are `synced`, `all` or `some`."""
        found: dict[str, bytes | None] = {}
        few = lambda folder: chance.randrange(len(folder.changes) + 1)  # noqa: E731

        def visit(folder: File, above: str) -> None:
            changes = folder.changes[: {"synced": 0, "all": None}.get(names, few(folder))]
            for name, file in {**folder.synced_entries, **dict(changes)}.items():
                if file is None:
                    continue
                if file.entries is None:
                    found[above + name] = _bytes_left(file, data, chance)
                else:
                    found[above + name] = None
                    visit(file, f"{above}{name}/")

        visit(self.root, "")
        return found


def _bytes_left(file: File, data: str, chance: random.Random) -> bytes:
    now, synced = bytes(file.data), file.synced or b""
    if data == "all" or now == synced:
        return now
    if data == "synced":
        return synced
    cut = now[: chance.randrange(len(now) + 1)]
    if synced and now.startswith(synced):  # lines were added
        return cut if len(cut) > len(synced) else synced
    return chance.choice([synced, now, cut, bytes(len(now))])
