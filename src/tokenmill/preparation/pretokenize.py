"""One text file becomes one `.npy` next to it: `corpus.txt` -> `corpus.npy`.

A preparation (`prepare.py`) with another last stage: the same plan, units, receipts and lock, but
not a byte of the text is changed, and there is one array instead of shards. The work is in the
hidden folder `.corpus.npy.work` until the array is complete; a run that was stopped resumes there.
One core: for many files or several cores use `prepare`.
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
from tokenmill.base.hashing import is_made_from, record_of
from tokenmill.base.progress import Progress
from tokenmill.base.signatures import checks_arguments
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
from tokenmill.preparation.planning.limits import expected_bytes, require_space
from tokenmill.preparation.planning.plan import Plan, begin, choose_dtype
from tokenmill.preparation.planning.settings import UNIT_BYTES, Settings
from tokenmill.preparation.stage_table import Preparation
from tokenmill.preparation.stages.assemble import write_npy
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.workspace.target import hold_workspace
from tokenmill.preparation.workspace.work_folder import WorkFolder, refuse_link
from tokenmill.text.inputs.file_kind import make_source, suffixes
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit, cut_into_units
from tokenmill.text.reading.chunks import ReadRules
from tokenmill.text.reading.read import check_unchanged, read_unit
from tokenmill.tokens.bytes_and_chars import CharsTokenizer, chars_of
from tokenmill.tokens.cuts import AT_CHARACTERS
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.tokenizer import Tokenizer, note_if_slow, note_on_literals

DTYPES = ("uint16", "uint32", "int32", "int64")
PIECE = 1 << 20  # bytes of one document that are encoded together
AGAIN = "force=True writes it again"
# Hints for errors of the stages, which name options that only `prepare` has.
HINTS = {
    "break_lock=": "wait for it, or stop it; if that machine is gone for good, remove the folder",
    "max_ram=": "say what separates documents: separator=",
    "on_bad_input=": "convert it first (iconv -t utf-8 -f ...), or use "
    "`tokenmill prepare --on_bad_input replace`",
}


@dataclass(frozen=True, slots=True)
class Pretokenized:
    """Result for one text."""

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
    """The array was there, made from this text, and was left alone."""

    @property
    def characters_per_token(self) -> float | None:
        return self.characters / self.tokens if self.characters and self.tokens else None


@checks_arguments
def pretokenize(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    tokenizer: Any = "gpt2",
    dtype: str | None = None,
    separator: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
    unit_bytes: int = UNIT_BYTES,
) -> list[Pretokenized]:
    """Write `FILE.npy` next to each text, and return the results in order.

    A `.npy` that was made from this text, by a hash, is kept, unless `force`; another one is
    written again.
    `dtype` is one of DTYPES; by default the smallest unsigned one that holds the vocabulary.
    `chars` learns one vocabulary from all the texts together. `unit_bytes` is how much text a
    killed run can lose; it never changes the result.
    """
    one_of("dtype", dtype, (None, *DTYPES))
    if separator == "":
        raise ValueError("separator is empty; leave it out to take a file as one document")
    progress = progress or Progress()
    sources = _find_texts([paths] if isinstance(paths, str | os.PathLike) else paths)
    try:
        encoder = _choose_tokenizer(tokenizer, sources)
        for note in note_if_slow(encoder):
            progress.say(note)
        kind = choose_dtype(encoder, dtype)
        arrays = [TextArray(source, encoder, kind, separator) for source in sources]
        kept = [None if force else array.find_kept() for array in arrays]
        return [
            found or array.write(progress, unit_bytes)
            for found, array in zip(kept, arrays, strict=True)
        ]
    except TokenmillError as error:
        for option, hint in HINTS.items():
            if option in (error.hint or ""):
                error.hint = hint
        raise


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
    def state_file(self) -> Path:
        return self.npy.with_suffix(".tokenizer_state.json")

    @property
    def work_folder(self) -> Path:
        return self.npy.with_name(f".{self.npy.name}.work")

    @property
    def _wanted(self) -> dict[str, str]:
        """Everything the ids depend on, besides the text."""
        return {"fingerprint": self.tokenizer.fingerprint, "separator": self.separator or ""}

    def write(self, progress: Progress, unit_bytes: int) -> Pretokenized:
        """Run all stages, and put the array in its place."""
        settings = Settings(
            tokenizer=self.tokenizer.name,
            separator=self.separator,
            val_fraction=0,
            long_line=min(PIECE, unit_bytes),
        )
        units = tuple(cut_into_units([self.source], unit_bytes))
        with _hold_work_folder(refuse_link(self.work_folder)) as workspace:
            plan = Plan(workspace, settings, (self.source,), units)
            num_tokens = expected_bytes(plan) // 2
            require_space(plan, num_tokens * (2 + self.dtype.itemsize))
            plan = begin(plan, self.tokenizer, restart=True)  # work for another is thrown away
            workspace.take_up()
            this = Preparation(plan, None, LocalExecutor(1), progress)
            encoded = this.run("encode")
            this.run("join")
            array = workspace.path("npy", self.npy.name)
            num_tokens = write_npy(plan, array, self.dtype)
            if not num_tokens:
                raise BadInputError(f"{self.source.name} is empty: there is nothing to tokenize")
            check_unchanged(self.source)
            num_documents = sum(part.num_documents for part in load_parts(this.out_dir))
            counts = sum((Counter(unit["counts"]) for unit in encoded), Counter[str]())
            for note in note_on_literals(counts):
                progress.say(note)
            self._publish(array)
        num_documents *= self.separator is not None
        return self._result(num_tokens, num_documents, counts["characters"])

    def _publish(self, array: Path) -> None:
        """Put the tokenizer and the array in place; an array made otherwise is removed first."""
        if self._made_with() != self._wanted:
            self.npy.unlink(missing_ok=True)
        state = {**self.tokenizer.state(), "separator": self.separator or ""}
        state["text"] = record_of(self.source.path)
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        # Written in the work folder: a killed run leaves nothing half written next to the text.
        written = array.with_name(self.state_file.name)
        write_atomically(written, orjson.dumps(state, option=options))
        rename_durably(written, self.state_file)
        rename_durably(array, self.npy)

    def find_kept(self) -> Pretokenized | None:
        """Return the array that is there, if it is that of the text; refuse another one."""
        if not self.npy.exists() or not is_made_from(self.npy, self.source.path):
            return None
        newer = f"{self.npy} is the array of {self.source.name}, but"
        try:
            ids = np.load(self.npy, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise MismatchError(f"{newer} it is not a .npy of ids: {error}", hint=AGAIN) from None
        made = {"dtype": str(ids.dtype), "dimensions": ids.ndim, **self._made_with()}
        for name, value in {"dtype": str(self.dtype), "dimensions": 1, **self._wanted}.items():
            if made.get(name) != value:
                kind = TokenizerMismatchError if name == "fingerprint" else MismatchError
                known = f"nothing says that its {name} is {value!r}"
                if name in made:
                    known = f"was made with {name} {made[name]!r}, not {value!r}"
                raise kind(f"{newer} {known}", hint=AGAIN)
        if self.work_folder.exists():  # its run was killed after the array was in its place
            with suppress(LockedError), _hold_work_folder(self.work_folder):
                pass
        return self._result(len(ids), 0, None)

    def _made_with(self) -> dict[str, str]:
        """Return what the array that is there was made with; nothing where that is not known."""
        try:
            state = orjson.loads(self.state_file.read_bytes())
            return {name: str(state[name]) for name in self._wanted}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def _result(self, tokens: int, documents: int, characters: int | None) -> Pretokenized:
        return Pretokenized(
            text=self.source.name,
            npy=str(self.npy),
            tokenizer=self.tokenizer.name,
            dtype=self.dtype.name,
            tokens=tokens,
            documents=documents,
            characters=characters,
            bytes=self.npy.stat().st_size,
            kept=characters is None,
        )


@contextmanager
def _hold_work_folder(folder: Path) -> Iterator[WorkFolder]:
    """Lock the folder for the work.

    Finished units stay after an interrupt or a failing disk, to resume from; the folder is removed
    after success, and after any other error, which would come again.
    """
    stays = False
    try:
        with hold_workspace(WorkFolder(folder), break_lock=False) as workspace:
            try:
                yield workspace
            except (OSError, Stopped, KeyboardInterrupt):
                stays = True
                raise
            finally:
                if not stays:
                    workspace.forget()
    finally:
        with suppress(OSError):
            folder.rmdir()


def npy_beside(path: Path) -> Path:
    """Return `corpus.npy` for `corpus.txt` or `corpus.txt.gz`."""
    stem = path.name[: len(path.name) - len("".join(suffixes(path.name)))]
    return path.with_name(f"{stem}.npy")


def _find_texts(paths: Sequence[str | os.PathLike[str]]) -> list[Source]:
    owners: dict[Path, Source] = {}
    for path in map(Path, paths):
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
        npy = npy_beside(path).resolve()
        if npy in owners:
            raise ValueError(f"{owners[npy].name} and {path} would both become {npy}")
        owners[npy] = source
    if not owners:
        raise ValueError("no text file was given")
    return list(owners.values())


def _choose_tokenizer(tokenizer: Any, sources: list[Source]) -> Tokenizer:
    if not isinstance(tokenizer, str) or tokenizer != "chars":
        return load(tokenizer)
    rules = ReadRules(long_line=PIECE, cuts=AT_CHARACTERS)
    characters = set[str]()
    for source in sources:
        for chunk in read_unit(source, Unit(0, 0, source.size), rules):
            characters |= chars_of(chunk.texts)
    return CharsTokenizer.build(characters)
