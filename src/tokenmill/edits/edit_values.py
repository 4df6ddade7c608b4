"""What can be edited in a run, as small frozen values; docs/edits.md says what each one means.

Each checks itself as far as it can without the run: numbers are numbers, ranges rise. What depends
on the run (names of sources, documents, what is past) is checked when the edit is applied.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from os import PathLike, fspath
from typing import Any, ClassVar

from tokenmill.base.human import neighbour_runs
from tokenmill.base.suggest import one_of
from tokenmill.order.shares import whole_parts

Range = tuple[int, int]
CAP_THEN = ("share", "end")


@dataclass(frozen=True)
class Reweight:
    """Other weights from here on, one for each source; the rest of a schedule is replaced."""

    weights: Mapping[str, Any]

    kind: ClassVar = "reweight"

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _checked_weights(self.weights))

    def to_json(self) -> dict[str, Any]:
        return {"weights": _weights_json(self.weights)}


@dataclass(frozen=True)
class Skip:
    """Steps, or samples, first .. stop-1 that are skipped.

    What they would have served is never served; the next ones take their place.
    """

    steps: Range | None = None
    samples: Range | None = None

    kind: ClassVar = "skip"

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.samples is None):
            raise ValueError(
                "give either steps=(first, stop) or samples=(first, stop), one of them"
            )
        for name in ("steps", "samples"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _checked_range(name, getattr(self, name)))

    def in_samples(self, steps_begin_at: Callable[[int], int] | None) -> "Skip":
        """The same by its samples; `steps_begin_at` gives the first sample of a step."""
        if self.steps is None:
            return self
        if steps_begin_at is None:
            raise ValueError(
                f"steps are {self.steps}, but a state does not say how many samples a step has; "
                "give samples=(first, stop)"
            )
        first, stop = (steps_begin_at(step) for step in self.steps)
        return Skip(samples=(first, stop))

    @property
    def first_sample(self) -> int:
        assert self.samples is not None
        return self.samples[0]

    def to_json(self) -> dict[str, Any]:
        return (
            {"samples": list(self.samples)} if self.samples else {"steps": list(self.steps or ())}
        )


@dataclass(frozen=True)
class Ban:
    """Documents, or tokens start .. stop-1, of a source on which nothing is trained from here on.

    `documents` are numbers, or the path of a file with one number in each line. `source` may be
    left out where there is only one.
    """

    documents: "tuple[int, ...] | str | None" = None
    tokens: Range | None = None
    source: str | None = None

    kind: ClassVar = "ban"

    def __post_init__(self) -> None:
        if (self.documents is None) == (self.tokens is None):
            raise ValueError("give either documents=[...] or tokens=(start, stop), one of them")
        if self.tokens is not None:
            object.__setattr__(self, "tokens", _checked_range("tokens", self.tokens))
        elif isinstance(self.documents, (str, PathLike)):
            object.__setattr__(self, "documents", fspath(self.documents))
        else:
            object.__setattr__(self, "documents", _checked_documents(self.documents))

    def to_json(self) -> dict[str, Any]:
        of_source = {} if self.source is None else {"source": self.source}
        if self.tokens is not None:
            return {"tokens": list(self.tokens), **of_source}
        if isinstance(self.documents, str):
            return {"documents": self.documents, **of_source}
        return {"documents": _runs(self.documents or ()), **of_source}


@dataclass(frozen=True)
class Cap:
    """Most epochs of a source, counted from the start of the run; None: no limit.

    `then` says what happens when they are reached: "share" gives what the source would have had
    to the others, by their weights (and ends where there are none); "end" ends the order.
    """

    epochs: Mapping[str, int | None]
    then: str = "share"

    kind: ClassVar = "cap"

    def __post_init__(self) -> None:
        one_of("then", self.then, CAP_THEN)
        if not isinstance(self.epochs, Mapping) or not self.epochs:
            raise ValueError(
                f'epochs are {self.epochs!r:.100}; give a number a source: {{"wiki": 4}}'
            )
        for name, number in self.epochs.items():
            if number is not None and (not _is_whole(number) or number < 1):
                raise ValueError(
                    f"the cap of {name!r} is {number!r}; it must be a whole number of epochs, at "
                    "least 1, or None"
                )
        object.__setattr__(self, "epochs", dict(self.epochs))

    def to_json(self) -> dict[str, Any]:
        return {"epochs": dict(self.epochs), "then": self.then}


@dataclass(frozen=True)
class Add:
    """Another source from here on: its name, its data, and the weights of all sources with it."""

    name: str
    data: Any
    """A TokenDataset, or a path for `tokenmill.open`."""
    weights: Mapping[str, Any]
    tokens: Range | None = None
    """Only these tokens of the data, such as those that `prepare --append` has added."""

    kind: ClassVar = "add"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"the name of a source is {self.name!r}; it must be a text")
        object.__setattr__(self, "weights", _checked_weights(self.weights))
        if self.name not in self.weights:
            raise ValueError(f"weights have no {self.name!r}, the source that is added")
        if self.tokens is not None:
            object.__setattr__(self, "tokens", _checked_range("tokens", self.tokens))

    def to_json(self) -> dict[str, Any]:
        data = self.data if isinstance(self.data, (str, PathLike)) else self.data.path
        tokens = {} if self.tokens is None else {"tokens": list(self.tokens)}
        weights = _weights_json(self.weights)
        return {"name": self.name, "data": fspath(data), **tokens, "weights": weights}


@dataclass(frozen=True)
class Grow:
    """More tokens at the end of a source, from its next epoch on: made when a run is resumed."""

    source: str
    data: Any = None

    kind: ClassVar = "grow"

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source}


Edit = Reweight | Skip | Ban | Cap | Add
"""What a user can ask for."""
AnyEdit = Edit | Grow
KINDS: dict[str, type[Edit]] = {kind.kind: kind for kind in (Reweight, Skip, Ban, Cap, Add)}


def edit_from_json(kind: str, fields: Mapping[str, Any]) -> Edit:
    """Return the edit of this kind and these fields (`to_json`); refuse what is not one."""
    one_of("kind", kind, KINDS)
    values = dict(fields)
    if isinstance(values.get("weights"), Mapping):
        values["weights"] = {
            name: Fraction(weight) if isinstance(weight, str) else weight
            for name, weight in values["weights"].items()
        }
    if isinstance(values.get("documents"), list):
        values["documents"] = [n for run in values["documents"] for n in _numbers_in(run)]
    try:
        return KINDS[kind](**values)
    except TypeError as error:
        raise ValueError(
            f"{dict(fields)!r:.200} are not the fields of a {kind!r}: {error}"
        ) from None


# Checking


def _checked_weights(weights: Any) -> dict[str, Any]:
    if not isinstance(weights, Mapping):
        raise ValueError(
            f'weights are {weights!r:.100}; give one a source: {{"web": 0.7, "code": 0.3}}'
        )
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, Real):
            raise ValueError(f"the weight of {name!r} is {weight!r:.100}; it must be a number")
    whole_parts(list(weights.values()))
    return dict(weights)


def _weights_json(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights as JSON has them; exact fractions as text."""
    return {
        name: str(weight)
        if isinstance(weight, Fraction)
        else int(weight)
        if _is_whole(weight)
        else float(weight)
        for name, weight in weights.items()
    }


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _checked_range(name: str, edges: Any) -> Range:
    try:
        first, stop = (operator.index(edge) for edge in edges)
    except (TypeError, ValueError):
        raise ValueError(f"{name} are {edges!r:.100}; give two numbers: (first, stop)") from None
    if not 0 <= first < stop:
        raise ValueError(f"{name} are {first} to {stop}; they must be 0 or more, and rise")
    return first, stop


def _checked_documents(documents: Any) -> tuple[int, ...]:
    try:
        numbers = sorted({operator.index(number) for number in documents})
    except TypeError:
        raise ValueError(f"documents are {documents!r:.100}; give a list of numbers") from None
    if not numbers or numbers[0] < 0:
        raise ValueError(f"documents are {documents!r:.100}; give at least one, each 0 or more")
    return tuple(numbers)


def _runs(numbers: Iterable[int]) -> list[int | list[int]]:
    """Rising numbers, neighbours as [first, last]."""
    return [first if first == last else [first, last] for first, last in neighbour_runs(numbers)]


def _numbers_in(run: Any) -> Iterable[int]:
    return range(run[0], run[1] + 1) if isinstance(run, list) else (run,)
