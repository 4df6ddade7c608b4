"""Parts: encoded documents on disk, between encoding and the shards. A part holds whole documents:

    N.M.tokens   ids in the width of the dataset, each document followed by the end-of-text id, and
                 preceded by the begin token, if one is asked for
    N.M.rows     a row per document: its number of ids, and the hash of its own ids, without these
    N.M.C.column the values of column C (`plan.columns`), one for each id in N.M.tokens
    N.M.origins  where each document comes from, and
    N.M.values   the fields of it that are kept, if facts are kept (kept_facts.py)

N is the unit that the part begins in, M counts its files. A document that is too long for one part
is a part by itself, and its ids are in several files (`long_documents.py`).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tokenmill import kernel
from tokenmill.preparation.planning.plan import Plan
from tokenmill.text.cleaning.dedup import HASH, hash_all

if TYPE_CHECKING:  # imported where facts are kept
    from tokenmill.text.reading.kept_facts import KeptFacts

TOKENS_PER_FILE = 16 << 20
ROW = np.dtype([("length", "<u8"), ("hash", HASH)])
FOLDER = "units"
Values = Mapping[str, np.ndarray]  # of columns, by name: one (or a row of k) for each id
NO_COLUMNS: Values = {}
ORIGINS, VALUES = ".origins", ".values"


@dataclass(frozen=True)
class TokenFile:
    """A file of ids: `NAME.tokens`."""

    name: str
    num_tokens: int

    @property
    def unit(self) -> int:
        """The unit that wrote it."""
        return int(self.name.partition(".")[0])

    def names(self, plan: Plan) -> list[str]:
        """The files on disk: of its ids, and of each column."""
        return [f"{self.name}.tokens", *(f"{self.name}.{c.name}.column" for c in plan.columns)]


@dataclass(frozen=True)
class Part:
    """Whole documents: their ids, in one file or several, and a table of them."""

    files: tuple[TokenFile, ...]
    num_documents: int

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Part":
        files = tuple(TokenFile(**file) for file in value["files"])
        return cls(files, value["num_documents"])

    @property
    def name(self) -> str:
        """The name of its table, which is that of its first file."""
        return self.files[0].name

    @property
    def num_tokens(self) -> int:
        return sum(file.num_tokens for file in self.files)

    def rows(self, plan: Plan) -> np.ndarray:
        """The table of its documents, mapped: (num_documents,) of ROW."""
        return plan.workspace.array(FOLDER, f"{self.name}.rows", ROW, (self.num_documents,))

    def facts(self, plan: Plan) -> "KeptFacts":
        """The facts of its documents, mapped; they are kept under the name of its first file."""
        from tokenmill.base.arrow import from_streams
        from tokenmill.text.reading.kept_facts import ORIGIN, KeptFacts

        workspace = plan.workspace
        origins = workspace.array(FOLDER, self.name + ORIGINS, ORIGIN, (self.num_documents,))
        is_there = plan.settings.keeps_values
        values = workspace.load(FOLDER, self.name + VALUES, "u1") if is_there else b""
        return KeptFacts(origins, tuple(from_streams(values)))

    def token_arrays(self, plan: Plan) -> Iterator[np.ndarray]:
        """The ids of each of its files, mapped."""
        return (ids for ids, *_ in self.tables(plan))

    def tables(self, plan: Plan) -> Iterator[list[np.ndarray]]:
        """The ids of each of its files, and after them the values of each column, mapped."""
        kinds = [(plan.dtype, ()), *((column.dtype, column.shape) for column in plan.columns)]
        for file in self.files:
            if file.num_tokens:
                names = file.names(plan)
                yield [
                    plan.workspace.array(FOLDER, name, dtype, (file.num_tokens, *shape))
                    for name, (dtype, shape) in zip(names, kinds, strict=True)
                ]


def split_of(plan: Plan, part: Part) -> str | None:
    """The validation set that the file of a part is held out for; None for all other files."""
    return plan.sources[plan.units[part.files[0].unit].source].split


class TokenWriter:
    """Writes one file of ids; it is given up if an error ends the `task` before it is closed."""

    def __init__(self, plan: Plan, name: str, task: ExitStack) -> None:
        self._plan = plan
        self._name = name
        self.num_tokens = 0
        self._files = task.enter_context(ExitStack())
        self._tokens = self._open("tokens")
        self._columns = {column: self._open(f"{column.name}.column") for column in plan.columns}

    def _open(self, kind: str) -> IO[bytes]:
        file = self._plan.workspace.new(FOLDER, f"{self._name}.{kind}")
        return self._files.enter_context(file)

    def write(self, ids: np.ndarray, values: Values = NO_COLUMNS) -> None:
        for column, file in self._columns.items():
            stored = column.stored(values[column.name], len(ids), f"part {self._name}")
            file.write(np.ascontiguousarray(stored).data)
        self._tokens.write(ids.astype(self._plan.dtype, copy=False).data)
        self.num_tokens += len(ids)

    def close(self) -> TokenFile:
        self._files.close()
        return TokenFile(self._name, self.num_tokens)


class PartWriter(TokenWriter):
    """Writes one part of short documents; the caller leaves the receipt."""

    def __init__(self, plan: Plan, name: str, task: ExitStack) -> None:
        super().__init__(plan, name, task)
        self._num_documents = 0
        self._rows = self._open("rows")
        self._facts = FactsWriter(plan, name, task) if plan.settings.keeps_facts else None

    def add(
        self,
        ids: np.ndarray,
        ends: np.ndarray,
        values: Values = NO_COLUMNS,
        facts: "KeptFacts | None" = None,
    ) -> None:
        """Append documents encoded one after another; `ends` says where each ends in `ids`.

        `values` are of every id that is written: also of the begin tokens and end-of-text ids.
        """
        plan = self._plan
        if self._facts is not None and facts is not None:
            self._facts.write(facts)
        rows = np.zeros(len(ends), ROW)
        rows["length"] = np.diff(ends, prepend=0) + 1  # with end-of-text
        if plan.needs_hashes:
            view = hashed_bytes(ids)
            bounds = pairwise([0, *(4 * ends).tolist()])
            rows["hash"] = hash_all([view[start:stop] for start, stop in bounds])
        every = np.ones(len(ends), np.bool_)
        out = with_ends(ids, ends, every, plan.tokenizer.end_of_text_id, plan.dtype)
        if plan.begin_token_id is not None:
            starts = np.cumsum(rows["length"]) - rows["length"]
            out = np.insert(out, starts.astype(np.int64), plan.begin_token_id)
            rows["length"] += 1
        self.write(out, values)
        self._rows.write(rows.data)
        self._num_documents += len(rows)

    def finish(self) -> Part:
        if self._facts is not None:
            self._facts.close()
        return Part((self.close(),), self._num_documents)


class FactsWriter(ExitStack):
    """Writes the facts of one part; given up if an error ends the `task` before it is closed."""

    def __init__(self, plan: Plan, name: str, task: ExitStack) -> None:
        super().__init__()
        task.enter_context(self)
        suffixes = (ORIGINS, VALUES) if plan.settings.keeps_values else (ORIGINS,)
        files = [plan.workspace.new(FOLDER, name + suffix) for suffix in suffixes]
        self._origins, *self._values = map(self.enter_context, files)

    def write(self, facts: "KeptFacts") -> None:
        self._origins.write(facts.origins.data)
        for file in self._values:
            file.writelines(facts.streams())


def fact_files(plan: Plan, parts: Iterable[Part]) -> list[str]:
    """The names of the files of facts of parts that begin in one unit."""
    if not plan.settings.keeps_facts:
        return []
    suffixes = (ORIGINS, VALUES) if plan.settings.keeps_values else (ORIGINS,)
    return [part.name + suffix for part in parts for suffix in suffixes]


def with_ends(
    ids: np.ndarray, ends: np.ndarray, complete: np.ndarray, end_of_text: int, dtype: np.dtype[Any]
) -> np.ndarray:
    """The ids of texts in this dtype, with the end-of-text id after those that are complete."""
    if kernel.compiled is not None and ids.dtype == np.uint32:
        out = np.empty(len(ids) + np.count_nonzero(complete), dtype)
        kernel.compiled.with_ends(out, dtype.itemsize, ids, ends, complete, end_of_text)
        return out
    return np.insert(ids.astype(dtype), ends[complete], end_of_text)


def hashed_bytes(ids: np.ndarray) -> memoryview:
    """The bytes of ids that are hashed: the same whatever the width of the dataset."""
    return np.ascontiguousarray(ids, "<u4").data.cast("B") if len(ids) else memoryview(b"")
