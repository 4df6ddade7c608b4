"""What the assistant writes, where a chat template does not mark it: proved, or refused.

An answer begins where the generation prompt ends: the conversation before it, rendered with the
prompt, must be what the whole text begins with. The prompt must be a header, and no more: nothing
says whether the beginning of an answer that a prompt writes (`<think>`) is to be learned. An answer
ends where the conversation that ends with it does, with the end of turn: what is after its content
there must come after it in the whole, too.

This takes two renderings per answer. So it is done once per kind of conversation: with the content
of messages replaced by marks, whose places are then compared with the text, which was rendered
once. Where a text does not fit (a template may look into contents), its own answers are proved.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from tokenmill.tokens.chat_template import CONTENT, OFF, ON, ChatTemplate, TemplateError

_HINT = (
    "mark what the assistant writes in the template, {% generation %}...{% endgeneration %}, and "
    "name the file: chat_template="
)
_HEADER = re.compile(r"\s*\S[^\n]*\s*(?<!\w)")  # one line, which the prompt finishes
_PLACE = re.compile(f"{CONTENT}(\\d+){CONTENT}")
_MOST_KINDS = 4096
_SHOWN = 40  # characters of each side of a difference
Conversation = Mapping[str, Any]


def with_marks(template: ChatTemplate, conversation: Conversation, text: str) -> str:
    """Return the text of a conversation with ON and OFF around each answer; or a TemplateError."""
    if all(message["role"] != "assistant" for message in conversation["messages"]):
        return text
    contents: list[str] = []
    messages = [_emptied(message, contents) for message in conversation["messages"]]
    kind = {**conversation, "messages": messages}
    key = orjson.dumps(kind)
    if key not in template.proved:
        if len(template.proved) >= _MOST_KINDS:
            template.proved.clear()
        template.proved[key] = _literals(template, kind)
    literals, numbers = template.proved[key]
    filled = _filled(literals, [contents[number] for number in numbers], text)
    return filled or prove(template, conversation)


def _emptied(message: Mapping[str, Any], contents: list[str]) -> dict[str, Any]:
    """Return a message with marks for its content, which is added to `contents`."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": _mark(content, contents)}
    if isinstance(content, list):
        marks = [{**part, "text": _mark(part["text"], contents)} for part in content]
        return {**message, "content": marks}
    return dict(message)


def _mark(text: str, contents: list[str]) -> str:
    if not text or text.isspace():
        return text  # templates ask whether there is any
    contents.append(text)
    return f"{CONTENT}{len(contents) - 1}{CONTENT}"


def _literals(template: ChatTemplate, kind: Conversation) -> tuple[list[str], list[int]]:
    """Return the text between contents, with ON and OFF, and the number of each content."""
    try:
        pieces = _PLACE.split(prove(template, kind))
    except TemplateError:
        return [], []  # a text may have what no mark has
    return pieces[::2], list(map(int, pieces[1::2]))


def _filled(literals: Sequence[str], contents: Sequence[str], text: str) -> str | None:
    """Return the literals with contents between them, if this is the text without ON and OFF.

    Templates may strip a content.
    """
    if not literals:
        return None
    plain = [literal.replace(ON, "").replace(OFF, "") for literal in literals]
    if not text.startswith(plain[0]):
        return None
    written = [literals[0]]
    at = len(plain[0])
    for content, literal, follows in zip(contents, literals[1:], plain[1:], strict=True):
        for form in _forms(content):
            if text.startswith(form, at) and text.startswith(follows, at + len(form)):
                break
        else:
            return None
        written += (form, literal)
        at += len(form) + len(follows)
    return "".join(written) if at == len(text) else None


def _forms(content: str) -> Iterator[str]:
    yield content
    for characters in (None, "\n"):
        yield content.strip(characters)
        yield content.lstrip(characters)
        yield content.rstrip(characters)


def prove(template: ChatTemplate, conversation: Conversation) -> str:
    """Return the text of a conversation with ON and OFF; TemplateError where nothing is proved."""
    messages = conversation["messages"]
    whole = template.render(conversation)
    written: list[str] = []
    done = 0
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = template.render({**conversation, "messages": messages[:number]}, prompt=True)
        if not whole.startswith(before):
            raise _difference(number, "before", before, whole)
        start = len(before)
        _check_prompt(template, conversation, number, before)
        until = template.render({**conversation, "messages": messages[: number + 1]})
        stop = len(until) if whole.startswith(until) else _stop(until, whole, start, number)
        if until == whole and number < len(messages) - 1:
            raise TemplateError(f"the chat template writes nothing of message {number + 2}")
        own = set(_PLACE.findall(orjson.dumps(message).decode()))
        if not done <= start <= stop or not own >= set(_PLACE.findall(whole, start, stop)):
            raise _difference(number, "of", until, whole)
        written += (whole[done:start], ON, whole[start:stop], OFF)
        done = stop
    return "".join((*written, whole[done:]))


def _check_prompt(
    template: ChatTemplate, conversation: Conversation, number: int, before: str
) -> None:
    """Refuse a generation prompt that is not the header of an answer, and nothing else."""
    if not template.has_prompt:
        return
    messages = conversation["messages"][:number]
    without = template.render({**conversation, "messages": messages})
    prompt = before[len(os.path.commonprefix((before, without))) :]  # noqa: RUF071
    if _HEADER.fullmatch(prompt) is None:
        error = TemplateError(
            f"the chat template does not show where message {number + 1} begins: its generation "
            f"prompt there is {prompt[-_SHOWN:]!r}, not a header alone"
        )
        error.hint = _HINT
        raise error


def _stop(until: str, whole: str, start: int, number: int) -> int:
    """Return where an answer ends whose template writes it otherwise when it is the last one."""
    places = list(_PLACE.finditer(until, start))
    at = whole.find(places[-1][0], start) if places else -1
    if at >= 0:
        at += len(places[-1][0])
        if whole.startswith(until[places[-1].end() :], at):
            return at + len(until) - places[-1].end()
    raise _difference(number, "up to", until, whole)


def _difference(number: int, what: str, alone: str, whole: str) -> TemplateError:
    """The error where a part of a conversation is written otherwise in the whole."""
    pairs = zip(alone, whole, strict=False)
    same = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(alone), len(whole)))
    shown = slice(max(0, same - _SHOWN), same + _SHOWN)
    error = TemplateError(
        f"the chat template does not show which text is the assistant's: what it writes {what} "
        f"message {number + 1} is {_without_marks(alone[shown])!r} there, and "
        f"{_without_marks(whole[shown])!r} in the whole conversation"
    )
    error.hint = _HINT
    return error


def _without_marks(text: str) -> str:
    return _PLACE.sub("...", text).replace(CONTENT, "")
