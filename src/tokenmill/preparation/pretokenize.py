"""One text file becomes one `.npy` beside it: `corpus.txt` -> `corpus.npy`.

A preparation (`prepare.py`) with another output: the same plan, units, receipts and lock, but no
cleaning and no deduplication (not a byte of the text is changed), and one array in place of shards.
The text is one document and no end-of-text id is added; with `separator`, the documents between
separators get one each.

  plan     cut the text into units                                  plan.py
  encode   encode a unit at a time                                  stages/encode.py
  join     encode the text between two units                        stages/join.py
  write    copy the ids into one .npy, hash it, read it back        stages/write_npy.py

The work is in the hidden folder `.corpus.npy.work` until the array is complete; a run that was
stopped resumes there, and the bytes are the same. `corpus.tokenizer_state.json`, beside the array,
is enough to decode it elsewhere. One core: for many files or several cores use `prepare`.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tokenmill.base.atomic import rename_durably, write_atomically
from tokenmill.base.progress import Progress
from tokenmill.base.suggest import one_of
from tokenmill.errors import (
    BadInputError,
    LockedError,
    MismatchError,
    Stopped,
    TokenizerMismatchError,
    TokenmillError,
)
from tokenmill.executors.local import LocalExecutor
from tokenmill.preparation.budget.disk_space import check_space, explain_bad_disk
from tokenmill.preparation.compare_encoders import choose_encoder
from tokenmill.preparation.plan import UNIT_BYTES, Plan, begin, choose_dtype
from tokenmill.preparation.settings import Settings
from tokenmill.preparation.stages.encode import encode_unit
from tokenmill.preparation.stages.join import join_units, load_joined
from tokenmill.preparation.stages.write_npy import write_npy
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.target import hold_workspace
from tokenmill.preparation.workspace.under_way import UnderWay
from tokenmill.preparation.workspace.work_folder import Workspace, bytes_and_tokens
from tokenmill.text.inputs.file_kind import make_source, suffixes
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit, cut_into_units
from tokenmill.text.reading.chunks import ReadRules
from tokenmill.text.reading.read import check_unchanged, read_unit
from tokenmill.tokens.bytes_and_chars import CharsTokenizer, chars_of
from tokenmill.tokens.cuts import AT_CHARACTERS
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.tokenizer import Tokenizer

DTYPES = ("uint16", "uint32", "int32", "int64")
PIECE = 1 << 20  # bytes of one document that are encoded at once
AGAIN = "force=True writes it again"
# What to do instead, where the stages name an option that only `prepare` has.
HINTS = {
    "break_lock=": "wait for it, or stop it; if that machine is gone for good, remove the folder",
    "max_ram=": "name what is between documents: separator=",
    "on_bad_input=": "convert it first (iconv -t utf-8 -f ...), or use "
    "`tokenmill prepare --on_bad_input replace`",
}


@dataclass(frozen=True, slots=True)
class Pretokenized:
    """What became of one text."""

    text: str
    npy: str
    tokenizer: str
    dtype: str
    tokens: int
    documents: int
    """Documents that got an end-of-text id: 0 without a separator."""
    characters: int | None
    """None for an array that was kept: the text was not read."""
    bytes: int
    """Size of the `.npy`."""
    kept: bool = False
    """The array was there, newer than the text, and was left alone."""

    @property
    def characters_per_token(self) -> float | None:
        """How much text a token holds."""
        return self.characters / self.tokens if self.characters and self.tokens else None


def pretokenize(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    tokenizer: str | Tokenizer = "gpt2",
    dtype: str | None = None,
    separator: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
    unit_bytes: int = UNIT_BYTES,
) -> list[Pretokenized]:
    """Write `FILE.npy` beside each text, and return what was written, in order.

    A `.npy` that is newer than its text is kept, unless `force`; an older one is written again.
    `dtype` is one of DTYPES; by default the smallest unsigned one that holds the vocabulary.
    `chars` learns one vocabulary from all the texts together. `unit_bytes` is how much text a
    killed run can lose; it never changes the result.
    """
    one_of("dtype", dtype, (None, *DTYPES))
    if separator == "":
        raise ValueError("separator is empty; leave it out to take a file as one document")
    progress = progress or Progress()
    sources = _find_texts([paths] if isinstance(paths, str | os.PathLike) else paths)
    with _own_hints():
        chosen = choose_encoder(
            _choose_tokenizer(tokenizer, sources),
            sources,
            ReadRules(long_line=PIECE),
            normalize=False,
            say=progress.say,
        )
        kind = choose_dtype(chosen, dtype)
        wanted = [TextArray(source, chosen, kind, separator) for source in sources]
        kept = [None if force else array.find_kept() for array in wanted]
        pairs = zip(kept, wanted, strict=True)
        return [found or array.write(progress, unit_bytes) for found, array in pairs]


@dataclass(frozen=True)
class TextArray:
    """The array that is wanted for one text."""

    source: Source
    tokenizer: Tokenizer
    dtype: np.dtype[Any]
    separator: str | None

    @property
    def npy(self) -> Path:
        return npy_beside(Path(self.source.name))

    @property
    def state(self) -> Path:
        return self.npy.with_suffix(".tokenizer_state.json")

    @property
    def _work_folder(self) -> Path:
        return self.npy.with_name(f".{self.npy.name}.work")

    def write(self, progress: Progress, unit_bytes: int) -> Pretokenized:
        """Run all stages, and put the array in its place."""
        with self._hold_work_folder() as workspace:
            plan = self._begin(workspace, unit_bytes)
            num_documents, num_characters = encode_text(plan, progress)
            written = write_npy(str(workspace.out_dir), self.dtype.name)
            if not written["tokens"]:
                raise BadInputError(f"{self.source.name} is empty: there is nothing to tokenize")
            check_unchanged(self.source)
            self._publish(workspace.path("npy", written["name"]))
        num_documents = num_documents if self.separator else 0
        return self._outcome(written["tokens"], num_documents, num_characters)

    def find_kept(self) -> Pretokenized | None:
        """The array that is there, if it is newer than the text; it must be what was asked for."""
        if not self.npy.exists() or self.npy.stat().st_mtime_ns < self.source.mtime_ns:
            return None
        newer = f"{self.npy} is newer than {self.source.name}, but"
        try:
            ids = np.load(self.npy, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise MismatchError(f"{newer} it is not a .npy of ids: {error}", hint=AGAIN) from None
        if ids.dtype != self.dtype or ids.ndim != 1:
            raise MismatchError(
                f"{newer} it holds {ids.dtype.name} {ids.shape}, not {self.dtype.name}",
                hint=f'{AGAIN}; dtype="{ids.dtype.name}" keeps it',
            )
        made = self._made_with()
        if made is None:
            raise MismatchError(f"{newer} {self.state} does not say how it was made", hint=AGAIN)
        for what, now in self._wanted.items():
            if made[what] != now:
                kind = TokenizerMismatchError if what == "fingerprint" else MismatchError
                raise kind(f"{newer} was made with {what} {made[what]!r}, not {now!r}", hint=AGAIN)
        self._remove_leftovers()
        return self._outcome(len(ids), 0, None, kept=True)

    def _remove_leftovers(self) -> None:
        """Remove the work folder of a run that was killed after the array was in its place."""
        if self._work_folder.exists():
            with suppress(LockedError), self._hold_work_folder():
                pass

    @property
    def _wanted(self) -> dict[str, str]:
        """What the ids depend on, besides the text."""
        return {"fingerprint": self.tokenizer.fingerprint, "separator": self.separator or ""}

    def _made_with(self) -> dict[str, str] | None:
        """The same of the array that is there; None where that is not known."""
        try:
            state = orjson.loads(self.state.read_bytes())
            return {name: str(state[name]) for name in self._wanted}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _begin(self, workspace: Workspace, unit_bytes: int) -> Plan:
        """The plan, as it was begun; work for another one is thrown away."""
        settings = Settings(
            tokenizer=self.tokenizer.name,
            separator=self.separator,
            val_fraction=0,
            long_line=min(PIECE, unit_bytes),
        )
        units = cut_into_units([self.source], unit_bytes)
        plan = Plan(workspace, settings, (self.source,), tuple(units))
        check_space(plan)
        plan = begin(plan, self.tokenizer, restart=True)
        workspace.take_up()
        return plan

    @contextmanager
    def _hold_work_folder(self) -> Iterator[Workspace]:
        """The folder for the work, locked.

        What was done stays after an interrupt or a failing disk, to resume from; it is removed
        after success, and after any other error, which would come again.
        """
        folder = self._work_folder
        try:
            with explain_bad_disk(folder), hold_workspace(folder, break_lock=False) as workspace:
                try:
                    yield workspace
                except (OSError, Stopped):
                    raise
                except Exception:
                    workspace.forget()
                    raise
                workspace.forget()
        finally:
            with suppress(OSError):
                folder.rmdir()

    def _publish(self, array: Path) -> None:
        """Put the tokenizer and the array in place; an array made otherwise is removed first."""
        if self._made_with() != self._wanted:
            self.npy.unlink(missing_ok=True)
        state = {**self.tokenizer.state(), "separator": self.separator or ""}
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        written = array.with_name(
            self.state.name
        )  # there, so that a kill leaves nothing beside the text
        write_atomically(written, orjson.dumps(state, option=options))
        rename_durably(written, self.state)
        rename_durably(array, self.npy)

    def _outcome(
        self, num_tokens: int, num_documents: int, num_characters: int | None, kept: bool = False
    ) -> Pretokenized:
        names = (self.source.name, str(self.npy), self.tokenizer.name, self.dtype.name)
        counts = (num_tokens, num_documents, num_characters, self.npy.stat().st_size)
        return Pretokenized(*names, *counts, kept)


def encode_text(plan: Plan, progress: Progress) -> tuple[int, int]:
    """Encode all units and join them; how many documents and characters the text has."""
    name = str(plan.workspace.out_dir)
    tasks = [(name, unit) for unit in range(len(plan.units))]
    results = _encoded(tasks)
    counts, dropped = Counter[str](), Counter[str]()
    units, finished = UnderWay(plan.workspace), list[int]()
    units.clear()
    for number, receipt in progress.follow(
        "tokenizing",
        results,
        total=plan.bytes_in,
        measure=lambda result: bytes_and_tokens(result[1]),
        under_way=lambda: units.bytes_read(but=finished),
    ):
        finished.append(number)
        counts.update(receipt["counts"])
        dropped.update(receipt["dropped"])
    join_units(name)
    dropped.update(load_joined(name).dropped)
    return counts["documents_in"] - dropped.total(), counts["characters"]


def _encoded(tasks: list[tuple[str, int]]) -> Iterator[tuple[int, Receipt]]:
    """The receipts of all units, of those that were encoded before first."""
    for number, receipt in LocalExecutor(1).run_missing(encode_unit, tasks):
        yield number, receipt or encode_unit.receipts([tasks[number]])[0]


def npy_beside(path: Path) -> Path:
    """`corpus.npy` for `corpus.txt` or `corpus.txt.gz`."""
    stem = path.name[: len(path.name) - len("".join(suffixes(path.name)))]
    return path.with_name(f"{stem}.npy")


def _find_texts(paths: Sequence[str | os.PathLike[str]]) -> list[Source]:
    owners: dict[Path, Source] = {}
    for path in map(Path, paths):
        source, npy = _find_text(path), npy_beside(path).resolve()
        if npy in owners:
            raise ValueError(f"{owners[npy].name} and {path} would both become {npy}")
        owners[npy] = source
    if not owners:
        raise ValueError("no text file was given")
    return list(owners.values())


def _find_text(path: Path) -> Source:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; `tokenmill prepare` takes folders")
    if path.suffix == ".npy":
        raise ValueError(f"{path} is an array already; give the text it comes from")
    source = make_source(os.path.abspath(path), str(path))
    if source.kind != "text":
        raise BadInputError(
            f"{path} is {source.kind}, not plain text",
            hint=f"tokenmill prepare {path} -o OUT reads its documents",
            source=str(path),
        )
    return source


def _choose_tokenizer(tokenizer: str | Tokenizer, sources: list[Source]) -> Tokenizer:
    if not isinstance(tokenizer, str):
        return tokenizer
    if tokenizer != "chars":
        return load(tokenizer)
    rules, characters = ReadRules(long_line=PIECE), set[str]()
    for source in sources:
        for chunk in read_unit(source, Unit(0, 0, source.size), rules, cuts=AT_CHARACTERS):
            characters |= chars_of(chunk.texts)
    return CharsTokenizer.build(characters)


@contextmanager
def _own_hints() -> Iterator[None]:
    """Errors name the options of this command, not those of `prepare`."""
    try:
        yield
    except TokenmillError as error:
        for option, hint in HINTS.items():
            if option in (error.hint or ""):
                error.hint = hint
        raise
