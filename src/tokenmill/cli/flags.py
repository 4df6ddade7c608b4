"""Flags that several commands share, and flags made from the fields of a dataclass.

Name, type, default and help of a setting are written once, in its dataclass: the docstring under
a field is the help of its flag, a comment above a field is the title of the flags from there on.
The source is parsed and not imported, so that `--help` needs neither NumPy nor torch.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import click

PACKAGE = Path(__file__).parents[1]
PREPARE_SETTINGS = ("preparation/settings.py", "Settings")
TRAIN_SETTINGS = ("train/config.py", "TrainConfig")

F = TypeVar("F", bound=Callable[..., Any])


class Flag(click.Option):
    """An option that knows under which title of the help text it belongs."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help text groups its options by what one is thinking of."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record is not None:
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        for title in sorted(sections, key=lambda title: title == "Options"):  # these come last
            with formatter.section(title):
                formatter.write_dl(sections[title])


@dataclass(frozen=True)
class FieldSource:
    """One field of a dataclass, as its source has it."""

    name: str
    kind: type
    choices: tuple[str, ...]
    """Of a `Literal`; empty for other types."""
    default: Any
    help: str
    section: str


def settings_flags(
    settings: tuple[str, str],
    *,
    only: tuple[str, ...] = (),
    aliases: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Add a flag for each field (or those in `only`); a flag that is not given is None."""

    def decorate(command: F) -> F:
        for field in reversed(read_fields(*settings)):
            if not only or field.name in only:
                command = _flag(field, (aliases or {}).get(field.name))(command)
        return command

    return decorate


def _flag(field: FieldSource, alias: str | None) -> Callable[[F], F]:
    names = [field.name, f"--{field.name}", *([alias] if alias else [])]
    options: dict[str, Any] = {"metavar": field.name.rpartition("_")[2].upper()}
    if field.kind is bool:
        # What is on by default has two flags, so that both can be written down.
        names[1] += f"/--no_{field.name}" if field.default else ""
        options = {"is_flag": True}
    elif field.choices:
        options = {"metavar": "KIND", "type": click.Choice(field.choices)}
    elif field.kind is not str:
        options = {"metavar": "N" if field.kind is int else "X", "type": field.kind}
    return click.option(
        *names, cls=Flag, default=None, help=_help(field), section=field.section, **options
    )


def _help(field: FieldSource) -> str:
    text = field.help.removesuffix(".")
    if field.choices:
        text += f" ({', '.join(f'`{choice}`' for choice in field.choices)})"
    if field.default is None or field.default is False:
        return text
    if field.kind is bool:
        return f"{text}  [default: yes]"
    shown = field.default
    if field.kind is int and shown >= 10_000:
        shown = f"{shown:,}"
    return f"{text}  [default: {shown:g}]" if field.kind is float else f"{text}  [default: {shown}]"


@cache
def read_fields(file: str, class_name: str) -> tuple[FieldSource, ...]:
    """The fields of a dataclass of ours, in order, read from its source."""
    source = (PACKAGE / file).read_text(encoding="utf-8")
    found = [n for n in ast.parse(source).body if getattr(n, "name", None) == class_name]
    assert isinstance(found[0], ast.ClassDef)
    return tuple(_read_class(found[0], source.splitlines()))


def _read_class(node: ast.ClassDef, lines: list[str]) -> Iterator[FieldSource]:
    section = "Options"
    for field, text in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        above = lines[field.lineno - 2].strip()
        section = above.removeprefix("# ") if above.startswith("# ") else section
        kind, choices = _read_type(field.annotation)
        yield FieldSource(
            name=field.target.id,
            kind=kind,
            choices=choices,
            default=_value(field.value) if field.value is not None else None,
            help=" ".join(_docstring(text).split()),
            section=section,
        )


def _read_type(annotation: ast.expr) -> tuple[type, tuple[str, ...]]:
    """The type of a flag, without `| None`, and the values of a `Literal`."""
    if isinstance(annotation, ast.BinOp):
        return _read_type(annotation.left)
    if isinstance(annotation, ast.Subscript):
        values = _value(annotation.slice)
        return str, values if isinstance(values, tuple) else (values,)
    assert isinstance(annotation, ast.Name)
    return {"str": str, "int": int, "float": float, "bool": bool}[annotation.id], ()


def _value(node: ast.expr) -> Any:
    """The value of a default that names nothing: numbers, texts, `8 << 20`."""
    return eval(compile(ast.Expression(node), "default", "eval"), {"__builtins__": {}})


def _docstring(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""


COUNT = click.IntRange(min=1)


def value(
    names: str, metavar: str, text: str, *, default: Any = None, **more: Any
) -> Callable[[F], F]:
    """A flag that takes a value; the default is shown in brackets."""
    if default is not None:
        text, more["default"] = f"{text}  [default: {default}]", default
    return click.option(*names.split(), metavar=metavar, help=text, **more)


def switch(names: str, text: str, **more: Any) -> Callable[[F], F]:
    """A flag that is on when it is given."""
    return click.option(*names.split(), is_flag=True, help=text, **more)


OPEN_NAMES = ("format", "dtype", "tokenizer", "end_of_text_id")
OPEN_OPTIONS = [
    value("--format", "NAME", "Format, where the content does not show it"),
    value("--dtype", "TYPE", "Type of the ids, where no file states it"),
    value("--tokenizer", "NAME", "Tokenizer, where the data names none"),
    value("--end_of_text_id", "ID", "Id between documents, where the data names none", type=int),
]
sample_option = click.option(
    "--sample",
    type=COUNT,
    default=16 << 20,
    metavar="N",
    help="Tokens of each split to look at  [default: 16,777,216]",
)


def open_options(command: F) -> F:
    """Add the flags that say how to read the data; pass those that were given to `open`."""
    for option in reversed(OPEN_OPTIONS):
        command = option(command)
    return command


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; the rest is left to the library's defaults."""
    return {name: value for name, value in options.items() if value is not None}
