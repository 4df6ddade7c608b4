"""What an edit changes, in words; and edits as they are written in flags."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenmill.base.address import is_remote
from tokenmill.base.human import plural
from tokenmill.edits.edit_values import Add, Ban, Cap, Edit, Reweight, Skip

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def words_of(edit: Mapping[str, Any], batch_size: int) -> str:
    """What an edit of `loader.edits` changes; `batch_size` is that of all ranks."""
    return f"from step {edit['at'] // batch_size:,} on, {what_changes(edit)}"


def what_changes(edit: Mapping[str, Any]) -> str:
    """What an edit changes, without the step from which it holds; `edit` is its JSON."""
    return _WORDS[edit["kind"]](edit)


def _reweight(edit: Mapping[str, Any]) -> str:
    return f"weights {_weights(edit['weights'])}"


def _skip(edit: Mapping[str, Any]) -> str:
    unit = "samples" if "samples" in edit else "steps"
    first, stop = edit[unit]
    return f"what was planned for the {unit} {first:,} to {stop - 1:,} is passed over"


def _ban(edit: Mapping[str, Any]) -> str:
    if "tokens" in edit:
        first, stop = edit["tokens"]
        what = f"tokens {first:,} to {stop - 1:,}"
    elif isinstance(edit["documents"], str):
        what = f"the documents in {edit['documents']}"
    else:
        runs = [each if isinstance(each, list) else [each] for each in edit["documents"]]
        what = f"documents {', '.join(' to '.join(f'{n:,}' for n in run) for run in runs)}"
    source = f" of {edit['source']}" if edit.get("source") else ""
    return f"{what}{source} are not trained on"


def _cap(edit: Mapping[str, Any]) -> str:
    caps = ", ".join(
        f"any number of epochs of {name}"
        if n is None
        else f"at most {plural(n, 'epoch')} of {name}"
        for name, n in edit["epochs"].items()
    )
    then = "the others share the rest" if edit["then"] == "share" else "the run ends"
    return f"{caps}; then {then}"


def _add(edit: Mapping[str, Any]) -> str:
    return f"another source, {edit['name']} ({edit['data']}); weights {_weights(edit['weights'])}"


def _grow(edit: Mapping[str, Any]) -> str:
    return f"{edit['source']} has more tokens at its end, which join with its next epoch"


_WORDS = {
    "reweight": _reweight,
    "skip": _skip,
    "ban": _ban,
    "cap": _cap,
    "add": _add,
    "grow": _grow,
}


def _weights(weights: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {weight}" for name, weight in weights.items())


def edits_of_flags(
    *,
    add: str | None = None,
    weights: str | None = None,
    reweight: str | None = None,
    cap: str | None = None,
    then: str = "share",
    skip: str | None = None,
    ban: str | None = None,
    ban_tokens: str | None = None,
    source: str | None = None,
) -> list[Edit]:
    """The edits that flags of `tokenmill edits` ask for."""
    found: list[Edit] = []
    if add is not None:
        name, path = _pair(add, "--add", "crawl=data/crawl")
        if weights is None:
            raise ValueError("--add needs the weights of all sources: --weights data=0.5,crawl=0.5")
        path = path if is_remote(path) else os.path.abspath(path)  # the run may be elsewhere
        found.append(Add(name, path, weights=numbers_of(weights, "--weights")))
    elif weights is not None:
        raise ValueError("--weights goes with --add; --reweight changes the weights of a run")
    if reweight is not None:
        found.append(Reweight(numbers_of(reweight, "--reweight")))
    if cap is not None:
        found.append(Cap(numbers_of(cap, "--cap", int), then=then))
    if skip is not None:
        found.append(Skip(steps=_range(skip, "--skip")))
    if ban is not None:
        found.append(Ban(documents=_documents(ban), source=source))
    if ban_tokens is not None:
        found.append(Ban(tokens=_range(ban_tokens, "--ban_tokens"), source=source))
    if source is not None and ban is None and ban_tokens is None:
        raise ValueError("--source goes with --ban and --ban_tokens")
    return found


def _pair(text: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, value = (each.strip() for each in text.partition("="))
    if not (name and equals and value):
        raise ValueError(f"{flag} is {text!r}; expected a name and a value: {example}")
    return name, value


def pairs_of(text: str, flag: str, example: str) -> dict[str, str]:
    """web=data/web,code=data/code as a dict."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, value = _pair(part, flag, example)
        if name in found:
            raise ValueError(f"{flag} has {name!r} twice")
        found[name] = value
    return found


def numbers_of(text: str, flag: str, kind: type[int] | type[float] = float) -> dict[str, Any]:
    """web=0.7,code=0.3 as a dict; whole numbers stay whole."""
    found: dict[str, Any] = {}
    example = "web=0.7,code=0.3" if kind is float else "wiki=4"
    for name, value in pairs_of(text, flag, example).items():
        try:
            found[name] = int(value) if kind is int or value.isdecimal() else float(value)
        except ValueError:
            raise ValueError(f"{flag} has '{name}={value}'; {value!r} is not a number") from None
    return found


def _range(text: str, flag: str) -> tuple[int, int]:
    """120-129, both included, or one number."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{flag} is {text!r}; expected a number, or two: 120-129")
    return int(match[1]), int(match[2] or match[1]) + 1


def _documents(text: str) -> Any:
    """17,20-29 as numbers; anything else is the path of a file with a number in each line."""
    parts = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    if all(parts):
        return [n for part in parts if part for n in range(*_range(part[0], "--ban"))]
    if not Path(text).is_file():
        raise ValueError(
            f"--ban is {text!r}; expected numbers of documents such as 17,20-29, or a file of them"
        )
    return os.path.abspath(text)
