"""A function of the user, applied to batches of documents: `--map package.module:function`.

It is pure by contract: what it returns for a document depends on that document alone. A setting
names it with a hash of the file it is in, `package.module:function@HASH`: changed, it makes another
dataset. The first documents of every unit are given to it once more, one by one, and a function
that then returns something else is refused.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from tokenmill.errors import MismatchError, PrepareError
from tokenmill.text.filters.mapped import Documents, Mapped
from tokenmill.text.filters.rule import Batch, Rule, Verdict

DROPPED = "dropped"
_CHECKED = 2  # documents of a unit that are given to it alone, and
_AMONG = 8  # among others
_SHOWN = 60  # characters of a document, in an error
Function = Callable[[Documents], Any]


def name_of(function: str | Function) -> str:
    """Return `package.module:function@HASH` for a function, or for its name."""
    if isinstance(function, str):
        name, _, known = function.partition("@")
        return function if known else f"{name}@{_hash_of(_find(name, ('.',)))}"
    module = getattr(function, "__module__", None)
    path = getattr(function, "__qualname__", "<none>")
    if module in (None, "__main__") or "<" in path:
        raise ValueError(
            f"map is {path} of {module}: worker processes cannot import it\n\n"
            "hint: put the function into a file of its own, and import it from there"
        )
    return f"{module}:{path}@{_hash_of(function)}"


def folder_of(name: str) -> str:
    """Return the folder from which the module of a function was imported."""
    module = name.partition(":")[0]
    file = Path(inspect.getfile(sys.modules[module])).absolute()
    depth = module.count(".") + (file.name == "__init__.py")
    return str(file.parents[depth])


def _find(name: str, folders: Sequence[str]) -> Function:
    """Return the function of this name; a module is also looked for in these folders."""
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise ValueError(f"map is {name!r}; write it as package.module:function")
    sys.path += [folder for folder in map(_absolute, folders) if folder not in sys.path]
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"map is {name!r}: {error}\n\nhint: run it where {module.partition('.')[0]} can be "
            "imported: in its folder, or with PYTHONPATH"
        ) from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ValueError(f"map is {name!r}: {module} has no function {path}")
    return found  # type: ignore[no-any-return]


def _absolute(folder: str) -> str:
    return str(Path(folder).absolute())


def _hash_of(function: Function) -> str:
    """The hash of the file that a function is in: what it calls there may change as well."""
    try:
        source = Path(inspect.getfile(inspect.unwrap(function))).read_bytes()
    except (TypeError, OSError) as error:
        raise ValueError(f"map: the source of {function!r} cannot be read: {error}") from error
    return xxhash.xxh3_64_hexdigest(source)


class MapError(PrepareError):
    """A function failed; `position` is that of the document in its batch, if it is known."""

    def __init__(self, message: str, position: int | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.position = position


@dataclass(frozen=True)
class MapRule(Rule):
    """Applies a function to documents."""

    name = "map"
    function: Function
    called: str

    @classmethod
    def load(cls, name: str, folders: Sequence[str]) -> "MapRule":
        """Import a function by the name that settings have; it must be as it was then."""
        path, _, known = name.partition("@")
        function = _find(path, folders)
        if (found := _hash_of(function)) != known:
            raise MismatchError(
                f"the file of {path} was changed: its hash is {found}, and was {known}",
                hint="restore it; or, with the changed function, make another dataset",
            )
        return cls(function, path)

    def apply(self, batch: Batch) -> Verdict:
        texts = batch.strings
        answer = self._call(texts, batch.fields)
        reasons = np.zeros(len(texts), np.uint16)
        names: dict[str, int] = {}
        changed = {}
        for number, (text, new) in enumerate(zip(texts, answer.texts, strict=True)):
            if new is None:
                reason = (answer.reasons[number] if answer.reasons else None) or DROPPED
                reasons[number] = 1 + names.setdefault(str(reason), len(names))
            elif new is not text and new != text:
                changed[number] = self._encoded(new, number)
        values = [np.nan if v is None else v for v in answer.values or [None] * len(texts)]
        numbers = np.array(values, np.float64)
        was_changed = np.zeros(len(texts), np.int64)
        was_changed[list(changed)] = 1
        counts = {"texts": was_changed} if changed else {}
        return Verdict(reasons, numbers, changed, counts, answer.facts or {}, tuple(names))

    def check(self, batch: Batch) -> None:
        texts = [text.decode() for text in batch.texts[:_AMONG]]
        among = {name: values[:_AMONG] for name, values in batch.fields.items()}
        together = self._call(texts, among)
        for number in range(min(_CHECKED, len(texts))):
            alone = self._call([texts[number]], _of_one(among, number))
            if alone.texts[0] != together.texts[number]:
                raise MapError(
                    f"{self.called} is not pure: a document alone gives another text than the same "
                    "document among others, or a second time",
                    number,
                    "its answer must depend on the document alone, not on chance, the time or the "
                    "documents around it",
                )

    def _call(self, texts: list[str], fields: Mapping[str, Sequence[Any]]) -> Mapped:
        try:
            return _checked(self.called, self.function(Documents(list(texts), fields)), len(texts))
        except MapError:
            raise
        except Exception as error:
            position = 0 if len(texts) == 1 else self._failing(texts, fields)
            message = f"{self.called} raised {type(error).__name__}: {error}"
            raise MapError(message, position) from error

    def _failing(self, texts: list[str], fields: Mapping[str, Sequence[Any]]) -> int | None:
        """Return the first document for which the function fails alone."""
        for number, text in enumerate(texts):
            try:
                self.function(Documents([text], _of_one(fields, number)))
            except Exception:
                return number
        return None

    def _encoded(self, text: Any, number: int) -> bytes:
        try:
            return text.encode()  # type: ignore[no-any-return]
        except (AttributeError, UnicodeEncodeError) as error:
            what = f"{self.called} returned {type(text).__name__} that is not text: {error}"
            raise MapError(what, number) from error


def _of_one(fields: Mapping[str, Sequence[Any]], number: int) -> dict[str, Sequence[Any]]:
    return {name: values[number : number + 1] for name, values in fields.items()}


def _checked(called: str, answer: Any, size: int) -> Mapped:
    """Return what a function returned as `Mapped`; lists of another length are refused."""
    if not hasattr(answer, "texts"):
        answer = Mapped(answer)
    lists = {"texts": answer.texts, **{n: getattr(answer, n, None) for n in ("reasons", "values")}}
    facts = getattr(answer, "facts", None) or {}
    for name, values in {**lists, **facts}.items():
        if name == "texts" or values is not None:
            found = len(values) if isinstance(values, Sequence) else type(values).__name__
            if found != size or isinstance(values, str):
                what = f"{called} returned {found} {name} for {size} documents"
                hint = "return a list with one entry for each: the text, or None to drop it"
                raise MapError(what, None, hint)
    return Mapped(**lists, facts=facts)
