"""dolma's and OLMo's `.npy` files, which are none: ids without a header, and a `.csv.gz` beside.

So are the files that `np.memmap(path, np.int32, "w+")` writes, without a table.

The table has one line for each document: start, end (in tokens, exclusive), and perhaps id, source
and line.
"""

import io
import logging
import zlib
from array import array
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np

from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import NUMPY, Ask, FileFormat, FoundData
from tokenmill.formats.not_tokens import unknown_dtype, wide_dtype
from tokenmill.formats.writing import Writer, write_file
from tokenmill.reading.token_file import Dtype, Lazy

MASK = ".labels_mask"  # what OLMo-core takes as `label_mask_paths`: raw np.bool_, of any name
MAX_LINE = 1 << 20  # characters of a table's line
_SAID: set[tuple[Path, str]] = set()
log = logging.getLogger("tokenmill")


class DolmaWriter(Writer):
    """One split as files of whole documents."""

    file_name = "part-0-{number:05d}.npy"  # so order by name is order by number
    folder_per_split = True
    _documents = 0

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        """The table of documents; without a time in its header: equal data gives equal bytes."""
        import gzip  # only here and below: most programs never open such a file

        name = self.split or "tokens"
        rows = "".join(
            f"{start},{end},{number},{name},{number}\r\n"
            for number, (start, end) in enumerate(pairwise([0, *ends.tolist()]), self._documents)
        )
        self._documents += len(ends)
        write_file(path.with_suffix(".csv.gz"), gzip.compress(rows.encode(), mtime=0))

    @staticmethod
    def mask_of(path: Path) -> Path:
        return path.with_suffix(MASK)


class Dolma(FileFormat):
    """Named .npy, but without numpy's header."""

    name = "dolma"
    writer = DolmaWriter
    written_suffixes = (".npy", ".gz", MASK)
    dtypes = ("uint16", "uint32", "uint8", "uint64")
    tokens_per_shard = 500_000_000
    is_indexed = True
    documents_by_id = False
    states_dtype = False
    holds = ("loss",)

    def read(self, path: Path, ask: Ask) -> FoundData:
        first_bytes, size = untrusted.head(path)
        if first_bytes.startswith(NUMPY):
            raise FormatError(
                f"{path} has the header of a real .npy file, so it is not one of dolma",
                hint=f'leave format out, and the header is respected: tokenmill.open("{path}")',
            )
        if b"'descr'" in first_bytes[:64]:
            what = f"starts with {first_bytes[:6]!r}, then continues like the header of a .npy file"
            raise untrusted.damaged(path, what)
        dtype = ask.dtype or _only_dtype(path)
        if dtype is None:
            usual = "dolma writes uint16 unless it is given another type"
            raise unknown_dtype(path, self.name, usual)
        num_tokens = untrusted.whole_tokens(path, size, dtype)
        table = path.with_suffix(".csv.gz")
        ends = Lazy(load_ends, (str(table), num_tokens)) if table.is_file() else None
        if ends is not None and num_tokens == 0:
            ends()  # nobody will ask an empty file for its documents: are there some?
        return self.found(path, dtype, size, ends=ends, mask=DolmaWriter.mask_of(path))


def _only_dtype(path: Path) -> Dtype | None:
    """Return the only type that fits the bytes, where one does, and say so; else None."""
    name = wide_dtype(untrusted.head(path, 1 << 20)[0])
    if name is None:
        return None
    if (said := (path.parent, name)) not in _SAID:  # once for all files of a folder
        _SAID.add(said)
        log.warning(
            "%s has no header; its bytes are ids only as %s, and are read so (or name a dtype)",
            path,
            name,
        )
    return np.dtype(name)


def load_ends(path: str, num_tokens: int) -> np.ndarray:
    """Where documents end, from the table; its rows must cover all tokens without holes."""
    import csv  # only here: most programs never open such a file
    import gzip

    ends = array("q")
    end = row = 0
    try:
        with (
            untrusted.open_first(Path(path), untrusted.file_size(Path(path))) as packed,
            gzip.open(packed, "rb") as unpacked,
            io.TextIOWrapper(unpacked, "utf-8") as text,
        ):
            # A line is never read further than that: a small file may unpack to a huge one.
            lines = iter(lambda: text.readline(MAX_LINE), "")
            for row, fields in enumerate(csv.reader(lines)):
                start = int(fields[0])
                next_end = int(fields[1])
                if start != end or not end <= next_end <= num_tokens or row > 2 * num_tokens:
                    raise untrusted.mixed(
                        path,
                        f"has a document from token {start:,} to {next_end:,} in line {row + 1:,}, "
                        f"after one that ended at {end:,} of {num_tokens:,}",
                    )
                ends.append(end := next_end)
    except (OSError, EOFError, zlib.error, ValueError, IndexError, csv.Error) as error:
        what = f"is not a table of `start,end`, or damaged, in line {row + 1:,}: {error}"
        raise untrusted.damaged(path, what) from None
    if end != num_tokens:
        raise untrusted.mixed(path, f"covers {end:,} of {num_tokens:,} tokens")
    return np.array(ends, np.int64)
