"""Commands with sections and subcommands; flags in one line each, or made from a dataclass.

Name, type, default and help of a setting are written once, in its dataclass: the docstring under
a field is the help of its flag, a comment above a field is the title of the flags from there on.
The modules of these dataclasses import neither NumPy nor torch, so that `--help` is fast.
"""

import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from types import MappingProxyType, NoneType
from typing import Any, TypeVar

import click

from tokenmill.base.human import parse_bytes, parse_count
from tokenmill.base.progress import Progress
from tokenmill.base.signatures import options_of
from tokenmill.base.suggest import closest
from tokenmill.cli.outcome import OutcomeCommand

F = TypeVar("F", bound=Callable[..., Any])


class Flag(click.Option):
    """An option that knows under which title of the help text it belongs."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(OutcomeCommand):
    """A command whose help text groups its options by topic, and lists its subcommands."""

    subcommands: Mapping[str, str] = MappingProxyType({})
    """The line of each subcommand, by its name."""

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


class GroupWithMain(click.Group):
    """A group that runs its main command where the first word is not a subcommand.

    `lines` has a line of help for each subcommand, which is imported from `tokenmill.cli.MODULE`
    when it is called. An input that has the name of a subcommand is written as `./plan`.
    """

    def __init__(self, main: SectionedCommand, module: str, lines: Mapping[str, str]) -> None:
        super().__init__(help=main.help)
        self.main_command = main
        self.module = module
        self.lines = lines
        main.subcommands = lines

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if cmd_name not in self.lines:
            return self.main_command
        module = importlib.import_module(f"tokenmill.cli.{self.module}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        first = args[0] if args else ""
        if first in self.lines:
            return super().make_context(info_name, args, parent, **extra)
        try:
            return self.main_command.make_context(info_name, args, parent, **extra)
        except click.MissingParameter as error:
            # `prepare stauts OUT` is read as two inputs without an output.
            close = closest(first, self.lines)
            if close and not os.path.lexists(first):
                message = f"there is no {first!r}; did you mean `{info_name} {close}`?"
                raise click.UsageError(message, error.ctx) from None
            raise


def value(
    names: str, metavar: str, text: str, *, default: Any = None, choices: Any = (), **more: Any
) -> Callable[[F], F]:
    """A flag that takes a value; the help text shows the choices and the default."""
    if choices:
        more["type"] = click.Choice(choices)
    if more.get("type", type(default)) is int:
        more["type"] = whole
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
    elif isinstance(default, int):
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
    from tokenmill.preparation import Chat, Details, Run

    keywords = given(options)
    if progress is not None:
        keywords["progress"] = progress
    is_chat = keywords.pop("chat", False)
    for name, kind in {"run": Run, "details": Details, "chat": Chat}.items():
        if named := keywords.keys() & {field.name for field in fields(kind)}:
            keywords[name] = kind(**{field: keywords.pop(field) for field in named})
    if is_chat:
        keywords.setdefault("chat", Chat())
    elif "chat" in keywords:
        raise click.UsageError("flags of chat are given, and not --chat: add it")
    return keywords


class Whole(click.IntRange):
    """A whole number, also written as 64k or 10M."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = parse_count(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(number, param, ctx)


whole = Whole()
position = Whole(0)
count = Whole(1)


def page_file(path: str) -> str:
    """A file to write: its folder must be there before the work begins."""
    folder = os.path.dirname(os.path.abspath(path))
    if path != "-" and not os.path.isdir(folder):
        raise click.BadParameter(f"there is no folder {folder}; make it first: mkdir -p {folder}")
    return str(click.Path(dir_okay=False, writable=True).convert(path, None, None))


def size(value: str | int) -> int:
    """A number of bytes, also written as 512k or 8M, in powers of 1024 as --max_ram is."""
    try:
        return parse_bytes(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def unescaped(text: str) -> str:
    """A template as it is typed: line breaks, tabs and backslashes are written as in Python."""
    written = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"} if "{" in text else {}
    return re.sub(r"\\(.)", lambda found: written.get(found[1], found[0]), text)


SIZES = ("long_line",)
"""Settings that are counted in bytes."""
OPEN_NAMES = ("format", "dtype", "tokenizer", "end_of_text", "begin_token", "where")
# How to read the data; what was given is passed to `tokenmill.open`.
file_options = together(
    value("--format", "NAME", "Format, where the content does not show it"),
    value("--dtype", "TYPE", "Type of the ids, where no file states it"),
    value("--tokenizer", "NAME", "Tokenizer, where the data names none"),
    value("--end_of_text", "TOKEN", "Id between documents, where the data names none"),
    value("--where", "SQL", "These documents alone, by their facts: \"lang = 'en'\""),
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
    switch("--allow_heavy_dedup", "Continue where most of a file goes", section="Running"),
    switch("--break_lock", "Take OUT over from a machine that is gone", section="Running"),
)
scratch_options = together(
    value(
        "--scratch",
        "DIR",
        "Disk of each machine for files, if --work_dir is in a bucket",
        section="Running",
    ),
    value("--max_scratch", "SIZE", "Room for fetched files there, such as 20G", section="Running"),
)
sample_option = value(
    "--sample", "N", "Tokens of each split to look at", default=16 << 20, type=count
)


def settings_flags(
    settings: type, *, only: tuple[str, ...] = (), hidden: tuple[str, ...] = (), **aliases: str
) -> Callable[[F], F]:
    """A flag for each field of a dataclass (or those in `only`); one that is not given is None."""
    return together(
        *(
            _flag(field, *words, aliases.get(field.name, ""), hidden=field.name in hidden)
            for field, words in zip(fields(settings), field_words(settings), strict=True)
            if not only or field.name in only
        )
    )


# A title in a comment, or a field with the docstring under it.
_TITLE_OR_FIELD = re.compile(r'^    (?:# ([^\n]+)|\w+: [^\n]+\n    """(.+?)"""$)', re.M | re.S)


def field_words(settings: type) -> Iterator[tuple[str, str]]:
    """Yield the help of each field and the title of its section, from the dataclass's source."""
    section = "Options"
    for title, docstring in _TITLE_OR_FIELD.findall(inspect.getsource(settings)):
        if docstring:
            yield " ".join(docstring.split()).removesuffix("."), section
        section = title or section


def _flag(
    field: "Field[Any]", text: str, section: str, alias: str, *, hidden: bool
) -> Callable[[F], F]:
    kind, choices = kind_of(field)
    # A switch that is not off by default has two flags, so that both can be written down.
    no = f"/--no_{field.name}" if kind is bool and field.default is not False else ""
    names = [field.name, f"--{field.name}{no}", *alias.split()]
    options: dict[str, Any] = {"metavar": field.name.rpartition("_")[2].upper()}
    if kind is bool:
        options = {"is_flag": True}
    elif choices:
        options = {"metavar": "KIND", "type": click.Choice(choices)}
    elif field.name in SIZES:
        options = {"metavar": "SIZE", "type": size}
    elif field.name == "text_field":
        options["type"] = unescaped
    elif kind is int:
        options = {"metavar": "N", "type": whole}
    elif kind is float:
        options = {"metavar": "X", "type": float}
    text = _help(text, choices, field.default)
    options |= {"help": text, "section": section, "hidden": hidden}
    return click.option(*names, cls=Flag, default=None, **options)


def kind_of(field: "Field[Any]") -> tuple[type, tuple[str, ...]]:
    """Return the type of a field without None, and its choices if it is a Literal."""
    kinds = [kind for kind in options_of(field.type) if kind is not NoneType]
    return (str, tuple(kinds)) if isinstance(kinds[0], str) else (kinds[0], ())
