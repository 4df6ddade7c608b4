"""Flags in one line each, those that several commands share, and those made from a dataclass.

Name, type, default and help of a setting are written once, in its dataclass: the docstring under
a field is the help of its flag, a comment above a field is the title of the flags from there on.
The source is parsed and not imported, so that `--help` needs neither NumPy nor torch.
"""

import ast
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import click

from tokenmill.base.human import parse_bytes, parse_count
from tokenmill.base.progress import Progress

PACKAGE = Path(__file__).parents[1]
FLOAT = {"metavar": "X", "type": float}
PREPARE_SETTINGS = ("preparation/planning/settings.py", "Settings")

F = TypeVar("F", bound=Callable[..., Any])


class Flag(click.Option):
    """An option that knows under which title of the help text it belongs."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help text groups its options by topic, and lists its subcommands."""

    subcommands: Mapping[str, str] = MappingProxyType({})
    """The line of each subcommand, by its name; cli/group.py sets them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record is not None:
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        for title in sorted(sections, key=lambda title: title == "Options"):  # these come last
            with formatter.section(title):
                formatter.write_dl(sections[title])
        if self.subcommands:
            with formatter.section("Subcommands"):
                formatter.write_dl(list(self.subcommands.items()))


def value(
    names: str, metavar: str, text: str, *, default: Any = None, choices: Any = (), **more: Any
) -> Callable[[F], F]:
    """A flag that takes a value; the help text shows the choices and the default."""
    if choices:
        more["type"] = click.Choice(choices)
    if more.get("type", type(default)) is int:
        more["type"] = WHOLE
    if default is not None:
        more["default"] = default
    text = _help(text, choices, default)
    return click.option(*names.split(), cls=Flag, metavar=metavar, help=text, **more)


def _help(text: str, choices: tuple[str, ...], default: Any) -> str:
    if choices:
        text += f" ({', '.join(f'`{choice}`' for choice in choices)})"
    if default is None or default is False:
        return text
    if default is True:
        default = "yes"
    elif isinstance(default, int) and default >= 10_000:
        default = f"{default:,}"
    elif isinstance(default, float):
        default = f"{default:g}"
    return f"{text}  [default: {default}]"


def switch(names: str, text: str, **more: Any) -> Callable[[F], F]:
    """A flag that is on when it is given."""
    return click.option(*names.split(), cls=Flag, is_flag=True, help=text, **more)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several flags as one decorator; the help text keeps their order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given; the rest is left to the library's defaults."""
    return {name: value for name, value in options.items() if value is not None}


def as_keywords(options: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
    """The options that were given, as `prepare` takes them: with `run` and `details`."""
    from tokenmill.preparation import Details, Run

    keywords = given(options)
    if progress is not None:
        keywords["progress"] = progress
    for name, kind in {"run": Run, "details": Details}.items():
        fields = keywords.keys() & {field.name for field in dataclasses.fields(kind)}
        if fields:
            keywords[name] = kind(**{field: keywords.pop(field) for field in fields})
    return keywords


if TYPE_CHECKING:
    IntType = click.ParamType[int]
else:  # where it is not generic in every click that is allowed
    IntType = click.ParamType


class Count(IntType):
    """A whole number, also written as 64k or 10M."""

    name = "count"

    def __init__(self, least: int | None = None) -> None:
        self.least = least

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        try:
            count = parse_count(value) if isinstance(value, str) else int(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if self.least is not None and count < self.least:
            self.fail(f"{count:,} is less than {self.least:,}", param, ctx)
        return count


class Size(IntType):
    """A number of bytes, also written as 512k or 8M, in powers of 1024 as --max_ram is."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        try:
            return parse_bytes(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


WHOLE, COUNT = Count(), Count(least=1)
SIZES = ("long_line",)
"""Settings that are counted in bytes."""
OPEN_NAMES = ("format", "dtype", "tokenizer", "end_of_text", "begin_token")
# How to read the data; what was given is passed to `tokenmill.open`.
file_options = together(
    value("--format", "NAME", "Format, where the content does not show it"),
    value("--dtype", "TYPE", "Type of the ids, where no file states it"),
    value("--tokenizer", "NAME", "Tokenizer, where the data names none"),
    value("--end_of_text", "TOKEN", "Id between documents, where the data names none"),
)
open_options = together(
    file_options,
    value("--begin_token", "TOKEN", "Id that begins documents, if the data does not say"),
)
workers_option = value(
    "--workers", "N", "Processes  [default: number of cores]", type=int, section="Running"
)
work_options = together(
    value("--max_ram", "SIZE", "Memory to stay within, such as 4G", section="Running"),
    switch("--break_lock", "Take OUT over from a machine that is gone", section="Running"),
)
sample_option = value(
    "--sample", "N", "Tokens of each split to look at", default=16 << 20, type=COUNT
)


@dataclass(frozen=True)
class FieldSource:
    """One field of a dataclass, as its source has it."""

    name: str
    kind: type
    choices: tuple[str, ...]  # of a Literal; empty for other types
    default: Any
    help: str
    section: str


def settings_flags(
    settings: tuple[str, str], *, only: tuple[str, ...] = (), **aliases: str
) -> Callable[[F], F]:
    """A flag for each field (or those in `only`); a flag that is not given is None."""
    fields = [field for field in read_fields(*settings) if not only or field.name in only]
    return together(*(_flag(field, aliases.get(field.name, "")) for field in fields))


def _flag(field: FieldSource, alias: str) -> Callable[[F], F]:
    text = _help(field.help.removesuffix("."), field.choices, field.default)
    # A switch that is not off by default has two flags, so that both can be written down.
    no = f"/--no_{field.name}" if field.kind is bool and field.default is not False else ""
    names = [field.name, f"--{field.name}{no}", *alias.split()]
    options: dict[str, Any] = {"metavar": field.name.rpartition("_")[2].upper()}
    if field.kind is bool:
        options = {"is_flag": True}
    elif field.choices:
        options = {"metavar": "KIND", "type": click.Choice(field.choices)}
    elif field.name in SIZES:
        options = {"metavar": "SIZE", "type": Size()}
    elif field.kind is not str:
        options = {"metavar": "N", "type": WHOLE} if field.kind is int else FLOAT
    options |= {"default": None, "help": text, "section": field.section}
    return click.option(*names, cls=Flag, **options)


@cache
def read_fields(file: str, class_name: str) -> list[FieldSource]:
    """The fields of a dataclass of ours, in order, read from its source."""
    source = (PACKAGE / file).read_text(encoding="utf-8")
    lines, fields, section = source.splitlines(), [], "Options"
    (node,) = [n for n in ast.parse(source).body if getattr(n, "name", None) == class_name]
    assert isinstance(node, ast.ClassDef)
    for field, docstring in pairwise(node.body):
        if not isinstance(field, ast.AnnAssign):
            continue
        assert field.value, "a field has a default"
        assert isinstance(docstring, ast.Expr), "and a docstring, which is the help of its flag"
        above = lines[field.lineno - 2].strip()
        section = above.removeprefix("# ") if above.startswith("# ") else section
        annotation = field.annotation
        kind = _evaluate(annotation.left if isinstance(annotation, ast.BinOp) else annotation)
        choices = get_args(kind)  # of a Literal
        name, default = ast.unparse(field.target), _evaluate(field.value)
        text = " ".join(_evaluate(docstring.value).split())
        fields.append(FieldSource(name, str if choices else kind, choices, default, text, section))
    return fields


def _evaluate(node: ast.expr) -> Any:
    """A type or a default that uses no other names: numbers, texts, `8 << 20`."""
    names = {"str": str, "int": int, "float": float, "bool": bool, "Literal": Literal}
    return eval(compile(ast.Expression(node), "field", "eval"), {"__builtins__": names})
