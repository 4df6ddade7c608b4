"""What a preparation is asked to do: all that may change a byte of its result."""

import difflib
import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from tokenmill.text.reading.read import ReadRules


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that decide the result; how many workers run is not among them."""

    tokenizer: str = "gpt2"
    """A name, or the path of a tokenizer file."""
    end_of_text: str | None = None
    """The end-of-text token, where the tokenizer does not say it."""
    token_pattern: str | None = None
    """The splitting pattern of a .tiktoken file, by name, where the file name does not say it."""
    dtype: Literal["uint16", "uint32"] | None = None
    """Width of an id on disk; by default the smaller one that holds the vocabulary."""
    tokens_per_shard: int = 10_000_000
    val_fraction: float = 0.1
    normalize: bool = True
    dedup: Literal["lines", "documents", "none"] = "lines"
    dedup_min_chars: int = 16
    documents: Literal["file", "line", "paragraph"] = "file"
    separator: str | None = None
    text_field: str = "text"
    on_bad_input: Literal["error", "skip", "replace"] = "error"
    long_line: int = 8 << 20
    """Bytes beyond which a line is never a duplicate, and a document may be encoded in pieces."""

    def __post_init__(self) -> None:
        one_of("dedup", self.dedup, ("lines", "documents", "none"))
        one_of("documents", self.documents, ("file", "line", "paragraph"))
        one_of("on_bad_input", self.on_bad_input, ("error", "skip", "replace"))
        one_of("dtype", self.dtype, (None, "uint16", "uint32"))
        if self.tokens_per_shard < 1:
            raise ValueError(f"tokens_per_shard is {self.tokens_per_shard}, but must be at least 1")
        if not 0 <= self.val_fraction < 1:
            raise ValueError(f"val_fraction is {self.val_fraction}, but must be in [0, 1)")
        if self.dedup_min_chars < 0:
            raise ValueError(f"dedup_min_chars is {self.dedup_min_chars}, but must not be negative")
        if self.separator is not None and self.documents != "file":
            raise ValueError(
                f"separator {self.separator!r} and documents {self.documents!r} both say where "
                "documents end; give one of them"
            )
        if not self.text_field:
            raise ValueError("text_field is empty; name the field that holds the text")
        if self.separator == "":
            raise ValueError("separator is empty; leave it out to keep each file one document")

    @property
    def read_rules(self) -> ReadRules:
        """The part of the settings that readers need."""
        return ReadRules(
            documents=self.documents,
            separator=self.separator,
            text_field=self.text_field,
            on_bad_input=self.on_bad_input,
            long_line=self.long_line,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the plan and the manifest."""
        return asdict(self)

    def to_record(self) -> dict[str, Any]:
        """As the manifest keeps them: a tokenizer file by its name, without folders."""
        return {**asdict(self), "tokenizer": os.path.basename(self.tokenizer)}

    @classmethod
    def names(cls) -> set[str]:
        """All settings there are."""
        return {field.name for field in fields(cls)}


def check_names(function: Callable[..., object], given: Iterable[str]) -> None:
    """Raise a TypeError for what is neither an argument of the function nor a setting."""
    arguments = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    for name in given:
        if name in Settings.names():
            continue
        close = difflib.get_close_matches(name, sorted({*arguments, *Settings.names()}), 1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise TypeError(f"{function.__name__}() has no argument {name!r}{meant}")


def one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    """Raise a ValueError that lists the known values unless `value` is one of them."""
    if value not in known:
        raise ValueError(f"{name} is {value!r}; known are: {', '.join(map(str, known))}")
