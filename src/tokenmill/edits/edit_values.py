"""What can be edited in a run, as small frozen values; edits.md says what each one means.

The constructors are the one parser of edits, wherever they come from: Python, flags, a line of
edits.jsonl, a saved state. Each takes the fields of its JSON and refuses what is wrong by itself.
What depends on the run (names of sources, documents, what is past) is checked when it is applied.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from numbers import Real
from os import PathLike, fspath
from reprlib import repr as shown
from typing import Any, ClassVar

from tokenmill.base.suggest import one_of
from tokenmill.order.mixture_order import whole_parts
from tokenmill.order.step_share import LARGEST

Range = tuple[int, int]
CAP_THEN = ("share", "end")
_FRACTION = re.compile(r"\d{1,18}(/[1-9]\d{0,17})?")


class EditValue:
    """What all kinds of edits have in common."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The fields that are set; the constructor takes them again."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: _to_json(value) for name, value in values.items() if value is not None}

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Reweight(EditValue):
    """Other weights from here on, one for each source; the rest of a schedule is replaced."""

    weights: Mapping[str, Any]

    kind = "reweight"

    def __post_init__(self) -> None:
        self._set(weights=_checked_weights(self.weights))


@dataclass(frozen=True)
class Skip(EditValue):
    """Steps, or samples, first .. stop-1 that are skipped.

    What they would have served is never served; the next ones take their place.
    """

    steps: Range | None = None
    samples: Range | None = None

    kind = "skip"

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.samples is None):
            raise ValueError(
                "give either steps=(first, stop) or samples=(first, stop), one of them"
            )
        self._set(
            steps=_checked_range("steps", self.steps),
            samples=_checked_range("samples", self.samples),
        )

    def in_samples(self, steps_begin_at: Callable[[int], int] | None) -> Range:
        """Return its samples; `steps_begin_at` gives the first sample of a step."""
        if self.samples is not None:
            return self.samples
        assert self.steps is not None
        if steps_begin_at is None:
            raise ValueError(
                f"steps are {self.steps}, but a state does not say how many samples a step has; "
                "give samples=(first, stop)"
            )
        first, stop = self.steps
        return steps_begin_at(first), steps_begin_at(stop)


@dataclass(frozen=True)
class Ban(EditValue):
    """Documents, or tokens start .. stop-1, of a source on which nothing is trained from here on.

    `documents` are numbers and ranges `(first, last)`, or the path of a file with one number in
    each line. `source` may be left out where there is only one.
    """

    documents: "tuple[int | Range, ...] | str | None" = None
    tokens: Range | None = None
    source: str | None = None

    kind = "ban"

    def __post_init__(self) -> None:
        if (self.documents is None) == (self.tokens is None):
            raise ValueError("give either documents=[...] or tokens=(start, stop), one of them")
        if isinstance(self.documents, (str, PathLike)):
            self._set(documents=fspath(self.documents))
        elif self.documents is not None:
            self._set(documents=_checked_documents(self.documents))
        self._set(tokens=_checked_range("tokens", self.tokens))


@dataclass(frozen=True)
class Cap(EditValue):
    """Most epochs of a source, counted from the start of the run; None: no limit.

    `then` says what happens when they are reached: "share" gives what the source would have had
    to the others, by their weights (and ends where there are none); "end" ends the order.
    """

    epochs: Mapping[str, int | None]
    then: str = "share"

    kind = "cap"

    def __post_init__(self) -> None:
        one_of("then", self.then, CAP_THEN)
        if not isinstance(self.epochs, Mapping) or not self.epochs:
            raise ValueError(
                f'epochs are {shown(self.epochs)}; give a number a source: {{"wiki": 4}}'
            )
        caps = {
            name: None if number is None else whole_number(f"the cap of {name!r}", number, 1)
            for name, number in self.epochs.items()
        }
        self._set(epochs=caps)


@dataclass(frozen=True)
class Add(EditValue):
    """Another source from here on: its name, its data, and the weights of all sources with it."""

    name: str
    data: Any
    """A TokenDataset, or a path for `tokenmill.open`."""
    weights: Mapping[str, Any]
    tokens: Range | None = None
    """Only these tokens of the data, such as those that `prepare --append` has added."""

    kind = "add"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"the name of a source is {shown(self.name)}; it must be a text")
        self._set(
            weights=_checked_weights(self.weights), tokens=_checked_range("tokens", self.tokens)
        )
        if self.name not in self.weights:
            raise ValueError(f"weights have no {self.name!r}, the source that is added")


@dataclass(frozen=True)
class Grow(EditValue):
    """More tokens at the end of a source, from its next epoch on: made when a run is resumed."""

    source: str

    kind = "grow"


Edit = Reweight | Skip | Ban | Cap | Add
"""What a user can ask for."""
KINDS: dict[str, type[Edit]] = {kind.kind: kind for kind in (Reweight, Skip, Ban, Cap, Add)}


def edit_from_json(kind: str, values: Mapping[str, Any]) -> Edit:
    """Return the edit of this kind and these fields (`to_json`); refuse what is not one."""
    one_of("kind", kind, KINDS)
    try:
        return KINDS[kind](**values)
    except TypeError as error:
        raise ValueError(f"{shown(values)} are not the fields of a {kind!r}: {error}") from None


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _to_json(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, PathLike):
        return fspath(value)
    return getattr(value, "path", value)  # of a dataset its path


# Checking


def whole_number(named: str, value: Any, least: int = 0) -> int:
    """Return a whole number of at least `least` and below `LARGEST`; refuse anything else."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if isinstance(value, bool) or not least <= number < LARGEST:
        raise ValueError(
            f"{named} is {shown(value)}; it must be a whole number, at least {least} and below "
            f"{LARGEST:,}"
        )
    return number


def _checked_weights(weights: Any) -> dict[str, int | float | Fraction]:
    if not isinstance(weights, Mapping):
        raise ValueError(
            f'weights are {shown(weights)}; give one a source: {{"web": 0.7, "code": 0.3}}'
        )
    checked = {name: _checked_weight(name, weight) for name, weight in weights.items()}
    whole_parts(list(checked.values()))
    return checked


def _checked_weight(name: str, weight: Any) -> int | float | Fraction:
    """Return the weight of a source as a number; an exact fraction may be a text, as in JSON."""
    if isinstance(weight, str) and _FRACTION.fullmatch(weight):
        return Fraction(weight)
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise ValueError(f"the weight of {name!r} is {shown(weight)}; it must be a number")
    if isinstance(weight, Fraction):
        return weight
    return operator.index(weight) if hasattr(weight, "__index__") else float(weight)


def _checked_range(name: str, edges: Any) -> Range | None:
    if edges is None:
        return None
    try:
        first, stop = edges
    except (TypeError, ValueError):
        raise ValueError(f"{name} are {shown(edges)}; give two numbers: (first, stop)") from None
    first, stop = (whole_number(f"a number of {name}", edge) for edge in (first, stop))
    if first >= stop:
        raise ValueError(f"{name} are {first} to {stop}; they must be 0 or more, and rise")
    return first, stop


def _checked_documents(documents: Any) -> tuple[int | Range, ...]:
    """Numbers and ranges (first, last), ascending; those that touch are joined."""
    if isinstance(documents, range) and documents.step == 1 and documents:
        documents = [(documents[0], documents[-1])]
    if not isinstance(documents, Iterable) or not (runs := sorted(map(_document_run, documents))):
        raise ValueError(f"documents are {shown(documents)}; give a list of numbers, at least one")
    joined = [runs[0]]
    for first, last in runs[1:]:
        if first > joined[-1][1] + 1:
            joined.append((first, last))
        else:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
    return tuple(first if first == last else (first, last) for first, last in joined)


def _document_run(number: Any) -> Range:
    if isinstance(number, (list, tuple)) and len(number) == 2:
        first, last = (whole_number("the number of a document", edge) for edge in number)
        if first <= last:
            return first, last
        raise ValueError(f"documents are {first} to {last}; they must rise")
    first = whole_number("the number of a document", number)
    return first, first
