"""All formats, by signs that are cheap to look at: a format's module is imported when it is needed.

A line here and a module of the same name with a `FORMAT` is all that `open` and `convert` need.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.suggest import one_of

if TYPE_CHECKING:
    from tokenmill.formats.format import TokenFormat

OURS = "tokenmill"
SAMPLE_INDEX = "index.json"
LLMC_GPT2 = 20240520
LLMC_LLAMA3 = 20240801
NUMPY = b"\x93NUMPY"
MEGATRON = b"MMIDIDX\x00\x00"


@dataclass(frozen=True)
class FileSign:
    """How the files of one format are recognized."""

    name: str
    """As callers write it: tokenmill.open(path, format=name)."""
    suffixes: tuple[str, ...]
    """Endings of the names of its token files; a folder is searched for these."""
    first_bytes: tuple[bytes, ...] = ()
    by_name: tuple[str, ...] = ()
    """Endings of names that claim a file, once no format before this one did."""
    index_of: Mapping[str, str] = field(default_factory=dict)
    """Endings of the names of an index and of the token file that it belongs to."""

    def claims(self, path: Path, first_bytes: bytes) -> bool:
        """Return True if this is a file of this format; the formats before it did not claim it."""
        if first_bytes.startswith(self.first_bytes) or path.name.endswith(self.by_name):
            return True
        return path.suffix in self.suffixes and any(
            path.with_suffix(index).is_file() for index in self.index_of
        )


# In the order of asking: what has a magic number first, what only a name says last.
FILE_SIGNS = (
    FileSign(
        "llmc",
        (".bin",),
        first_bytes=(LLMC_GPT2.to_bytes(4, "little"), LLMC_LLAMA3.to_bytes(4, "little")),
    ),
    FileSign("npy", (".npy",), first_bytes=(NUMPY,)),
    FileSign("litpkds", (".bin",), first_bytes=(b"LITPKDS",)),
    FileSign("megatron", (".bin",), first_bytes=(MEGATRON, b"TNTIDX"), index_of={".idx": ".bin"}),
    FileSign(
        "datatrove",
        (".ds",),
        by_name=(".ds", ".ds.index", ".ds.metadata"),
        index_of={".ds.index": ".ds", ".ds.metadata": ".ds"},
    ),
    FileSign("modalities", (".pbin",), by_name=(".pbin",)),
    FileSign("dolma", (".npy",), by_name=(".npy",), index_of={".csv.gz": ".npy"}),
    FileSign("nanogpt", (".bin", ".raw"), by_name=(".bin", ".raw")),
)
FILE_FORMATS = tuple(sign.name for sign in FILE_SIGNS)
# The field of `index.json` that lists the shards.
SAMPLE_KEYS = {"mds": "shards", "litdata": "chunks"}
FOLDER_FORMATS = (OURS, *SAMPLE_KEYS)
FORMATS = (*FOLDER_FORMATS, *FILE_FORMATS)
READ_ONLY = ("litpkds", "modalities")
WRITABLE = tuple(name for name in FORMATS if name not in READ_ONLY)
INDEX_OF = {index: tokens for sign in FILE_SIGNS for index, tokens in sign.index_of.items()}
TOKEN_SUFFIXES = tuple({suffix for sign in FILE_SIGNS for suffix in sign.suffixes})


def load_format(name: str) -> Any:
    """Import the format of this name: a `FileFormat` or a `FolderFormat` (format.py)."""
    module = "ours" if name == OURS else name
    return import_module(f"tokenmill.formats.{module}").FORMAT


def format_to_write(name: str) -> "TokenFormat":
    """Return the format of this name; one that is unknown or only read is refused."""
    name = OURS if name == "ours" else name
    one_of("format to write", name, WRITABLE)
    format: TokenFormat = load_format(name)
    return format
