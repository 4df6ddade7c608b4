"""Chat templates: found next to a tokenizer, compiled in Jinja's sandbox, rendered within bounds.

A template is a program from a stranger. It runs in the sandbox of Jinja, sees no clock and no
random number, and is ended when it loops, calls or writes too much. What is between
`{% generation %}` and `{% endgeneration %}` comes out between the marks ON and OFF.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenmill.base.strict_json import parse_object
from tokenmill.base.suggest import did_you_mean
from tokenmill.errors import FormatError, MissingExtraError

try:
    import jinja2
    from jinja2 import meta, nodes
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    raise MissingExtraError("chat", package="jinja2", extra="chat") from None

ON, OFF, APART, CONTENT, END = "\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4"
"""Noncharacters, which Unicode keeps for use inside programs: an answer begins, ends; a special
string is text; the content of a message is here; a conversation ends."""
MARKS = re.compile("[\ufdd0-\ufdd4]")
MOST_STEPS = 1_000_000  # loops and calls of one conversation
_STEPS_PER_CALL = 10
MOST_SECONDS = 60.0
MOST_SIZE = 64 << 20  # characters of a text, or values of a list
_MOST_NUMBER = 1_000_000  # that a function or filter is given, such as a width
_WIDTH = re.compile(r"\d{6}")
_TOKEN_FILES = ("special_tokens_map.json", "tokenizer_config.json")
_CLOCK = "strftime_now"  # a function; the variable of this name is the date that it tells
_DATE = f'say which day it is: template_variables={{"{_CLOCK}": "2026-01-31"}}'
_DICT_NAMES = frozenset(dir(dict))
_NO_FILTERS = ("center", "format", "random", "pprint", "wordwrap")


class TemplateError(Exception):
    """A template cannot be used, or refuses a conversation."""

    hint: str | None = None


def find_template(tokenizer: str, given: str | None) -> tuple[str, dict[str, str]]:
    """Return the text of a template, and the special tokens that the tokenizer's files name.

    `given` is the name of one of several templates, or the text itself.
    """
    path = Path(tokenizer)
    if not path.exists() and tokenizer.count("/") == 1:
        from tokenmill.hub.tokenizer_files import fetch_tokenizer

        path, _ = fetch_tokenizer(tokenizer)
    folder = path if path.is_dir() else path.parent
    tokens: dict[str, str] = {}
    named: dict[str, str] = {}
    for file in (folder / name for name in _TOKEN_FILES if (folder / name).is_file()):
        config = parse_object(file.read_bytes(), str(file))
        for name, value in config.items():
            content = value.get("content") if isinstance(value, dict) else value
            if name.endswith("_token") and (content is None or isinstance(content, str)):
                tokens[name] = content or ""
        found = config.get("chat_template") or []
        listed = [{"name": "default", "template": found}] if isinstance(found, str) else found
        named |= {str(entry["name"]): str(entry["template"]) for entry in listed}
    files = [folder / "chat_template.jinja", *folder.glob("additional_chat_templates/*.jinja")]
    for file in filter(Path.is_file, files):
        named["default" if file is files[0] else file.stem] = file.read_text("utf-8")
    if given is not None and ("{%" in given or "{{" in given):
        return given, tokens
    if given in named or (given is None and "default" in named):
        return named[given or "default"], tokens
    has = f"templates named {', '.join(sorted(named))}" if named else "no chat template"
    what = f"{folder} has {has}"
    if given is not None:
        what = f"there is no chat template {given!r:.80}: {what}{did_you_mean(given, named)}"
    hint = "name one, or a file: chat_template="
    raise FormatError(what, hint=f'{hint}"chat_template.jinja"')


@lru_cache(maxsize=8)
def compiled(text: str, variables: str) -> "ChatTemplate":
    """Return the template of this text; `variables` are JSON."""
    return ChatTemplate(text, json.loads(variables))


class ChatTemplate:
    """A compiled template, and the variables that it is given with each conversation."""

    def __init__(self, text: str, variables: Mapping[str, Any]) -> None:
        """Refuse a text that is no template, or asks for special tokens that nothing names."""
        self._sandbox = _Sandbox()
        try:
            self._template = self._sandbox.from_string(text)
            tree = self._sandbox.parse(text)
        except jinja2.TemplateSyntaxError as error:
            raise FormatError(f"the chat template, line {error.lineno}: {error.message}") from None
        asked = meta.find_undeclared_variables(tree)
        if "messages" not in asked:
            raise FormatError("the chat template does not use `messages`: is it one?")
        missing = [n for n in sorted(asked) if n.endswith("_token") and n not in variables]
        if missing:
            raise FormatError(
                f"the chat template uses {', '.join(missing)}, and no tokenizer_config.json says "
                "what that is",
                hint=f'say it: template_variables={{"{missing[0]}": "<s>"}}',
            )
        self.uses_tools = "tools" in asked
        self.has_prompt = "add_generation_prompt" in asked
        self.has_marks = any(_is_generation(call) for call in tree.find_all(nodes.CallBlock))
        """True if the template says itself what the assistant writes."""
        self.proved: dict[bytes, tuple[list[str], list[int]]] = {}
        """Of kinds of conversations: what is written between contents (chat_spans.py)."""
        self._variables = {**variables, "tools": None, "documents": None}
        if (today := variables.get(_CLOCK)) is not None:
            try:
                self._variables[_CLOCK] = date.fromisoformat(today).strftime
            except (TypeError, ValueError):
                what = f"{_CLOCK} is {today!r}; it is the date that a template is told"
                raise FormatError(what, hint=_DATE) from None

    def render(self, conversation: Mapping[str, Any], *, prompt: bool = False) -> str:
        """Return the text of a conversation, with ON and OFF; `prompt` begins an answer."""
        self._sandbox.start()
        try:
            return self._template.render(
                self._variables, **conversation, add_generation_prompt=prompt
            )
        except (TemplateError, jinja2.TemplateError, MemoryError, RecursionError) as error:
            refused = TemplateError(f"the chat template says: {error or type(error).__name__}")
            if _CLOCK in str(error):  # today's date would give other ids tomorrow
                refused.hint = _DATE
            raise refused from None
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise TemplateError(f"the chat template fails: {error}") from None


class _Generation(Extension):
    """`{% generation %}`: a block that the assistant writes."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller: Callable[[], str]) -> str:
        return f"{ON}{caller()}{OFF}"


def _is_generation(call: nodes.CallBlock) -> bool:
    return isinstance(call.call.node, nodes.ExtensionAttribute)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, as chat templates expect it, with an end to loops, calls and sizes."""

    intercepted_binops = frozenset(("*", "**", "%"))

    def __init__(self) -> None:
        extensions: list[Any] = [_Generation, "jinja2.ext.loopcontrols"]
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
        for name in _NO_FILTERS:
            del self.filters[name]
        del self.globals["lipsum"]
        own = {"_loop": self._loop, "_value": self._value, "tojson": _tojson}
        self.filters |= {**own, "indent": _bounded(self.filters["indent"])}
        self.globals["raise_exception"] = _refuse
        self.start()

    def start(self) -> None:
        """Allow the steps of another conversation."""
        self._steps_left = MOST_STEPS
        self._deadline = time.monotonic() + MOST_SECONDS

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Count the values of every loop, and measure every value that is given a name."""
        tree = super()._parse(source, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = _filtered(loop.iter, "_loop")
        for assign in list(tree.find_all(nodes.Assign)):
            if not isinstance(assign.node, nodes.Const | nodes.Name):
                assign.node = _filtered(assign.node, "_value")
        for block in list(tree.find_all(nodes.AssignBlock)):
            block.filter = _filtered(block.filter, "_value")
        return tree

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """Join what a template, a block or a macro writes."""
        written = list(pieces)
        if sum(map(len, written)) > MOST_SIZE:
            raise TemplateError(f"it writes more than {MOST_SIZE:,} characters")
        return "".join(written)

    def call(self, context: Any, function: Any, /, *args: Any, **keywords: Any) -> Any:
        self._spend(_STEPS_PER_CALL)
        for value in (*args, *keywords.values()):
            self._value(value)
        return super().call(context, function, *args, **keywords)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`message.role`, at once where Jinja would look for an attribute of a dict first."""
        if type(obj) is dict and attribute not in _DICT_NAMES:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Any:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            _check_widths(value.__self__)
        return wrapped

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, str) and operator == "%":
            _check_widths(left)
        sizes = [x if isinstance(x, int) else len(x) for x in (left, right) if _is_sized(x)]
        if operator != "%" and len(sizes) == 2 and sizes[0] * sizes[1] > _MOST_NUMBER:
            raise TemplateError(f"{sizes[0]} {operator} {sizes[1]} is too large")
        return super().call_binop(context, operator, left, right)

    def _loop(self, values: Any) -> Any:
        if not hasattr(values, "__len__") and not isinstance(values, jinja2.Undefined):
            values = [value for value in values if self._spend(1)]
        self._spend(1 + len(values))
        return values

    def _value(self, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > _MOST_NUMBER:
            raise TemplateError(f"the number {value:.3g} is larger than {_MOST_NUMBER:,}")
        if isinstance(value, str | list | tuple) and len(value) > MOST_SIZE:
            raise TemplateError(f"a value is larger than {MOST_SIZE:,}")
        return value

    def _spend(self, steps: int) -> bool:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TemplateError(f"it takes more than {MOST_STEPS:,} steps")
        if time.monotonic() > self._deadline:
            raise TemplateError(f"it takes more than {MOST_SECONDS:.0f} seconds")
        return True


def _filtered(node: Any, name: str) -> nodes.Filter:
    filtered = nodes.Filter(node, name, [], [], None, None)
    filtered.lineno = 1 if node is None else node.lineno
    return filtered


def _is_sized(value: Any) -> bool:
    return isinstance(value, int | str | list | tuple)


def _check_widths(text: str) -> None:
    if _WIDTH.search(text):
        raise TemplateError(f"the format {text!r:.40} asks for more than 99,999 characters")


def _bounded(function: Callable[..., str]) -> Callable[..., str]:
    def bounded(text: str, width: Any = 4, *args: Any, **keywords: Any) -> str:
        if isinstance(width, int) and width > 100:
            raise TemplateError(f"an indent of {width:,} is more than 100")
        return function(text, width, *args, **keywords)

    return bounded


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as templates expect it: Jinja's own filter escapes characters of HTML."""
    if isinstance(indent, int) and indent > 100:
        raise TemplateError(f"an indent of {indent:,} is more than 100")
    options: dict[str, Any] = {"indent": indent, "separators": separators, "sort_keys": sort_keys}
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _refuse(message: str) -> None:
    raise TemplateError(message)
