"""Chat: a row becomes the marked text of its conversation, and such texts become ids and `loss`.

Special tokens come from the template only. Before a conversation is rendered, the mark APART is
put into every special string in it, also into the beginning of one at the end of a string; after
the special tokens of the text were found, the mark is taken out again.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.settings import FIELDS_OF_A_ROW, Settings
from tokenmill.text.reading import bad_input
from tokenmill.text.reading.bad_input import NotReadableError
from tokenmill.tokens.chat_spans import with_marks
from tokenmill.tokens.chat_template import APART, END, OFF, ON, TemplateError, compiled
from tokenmill.tokens.tokenizer import Tokenizer

NOT_CHAT = "not a conversation"
_MARK_BYTES = len(ON.encode())
_MARKED = re.compile(b"|".join(mark.encode() for mark in (ON, OFF, APART)))
_ON_KIND = ON.encode()[-1]
_OFF_KIND = OFF.encode()[-1]
_NONCHARACTERS = re.compile(b"\xef\xb7[\x90-\x94]")  # all marks


class Conversations:
    """Reads rows: `text_of(row)` is the text of a conversation, with ON and OFF at answers."""

    def __init__(
        self, template: str, variables: str, field: str, train_on: str, specials: tuple[str, ...]
    ) -> None:
        self._template = compiled(template, variables)
        self._field = field
        self._train_on = train_on
        if short := [name for name in specials if len(name) == 1]:
            raise PrepareError(f"the special token {short[0]!r} cannot be told from text")
        self._signs = _signs(specials)
        self._special = re.compile("|".join(map(re.escape, specials)) or "(?!)")
        parts = [(s[:n], s[n:]) for s in specials for n in range(1, len(s))]
        self._beginnings = tuple({begins for begins, _ in parts if not begins.isspace()})
        self._endings = tuple({ends for _, ends in parts if not ends.isspace()})

    def text_of(self, row: Any) -> bytes:
        """Return the text of a row; NotReadableError if it is no conversation."""
        conversation = self._conversation(row)
        written = orjson.dumps(conversation)
        if _NONCHARACTERS.search(written):
            raise NotReadableError(NOT_CHAT, "it has a noncharacter, U+FDD0 to U+FDD4")
        for sign in self._signs:
            if sign in written:
                conversation = _changed(conversation, self._apart)
                break
        try:
            text = self._template.render(conversation)
            if self._train_on == "all":
                text = f"{ON}{text.replace(ON, '').replace(OFF, '')}{OFF}"
            elif not self._template.has_marks:
                text = with_marks(self._template, conversation, text)
        except TemplateError as error:
            raise NotReadableError(NOT_CHAT, str(error), error.hint) from None
        if self._train_on == "last":
            before, on, last = text.replace(f"{OFF}{ON}", "").rpartition(ON)
            text = before.replace(ON, "").replace(OFF, "") + on + last
        return text.encode()

    def _conversation(self, row: Any) -> dict[str, Any]:
        """Return the variables of the template that a row gives."""
        if not isinstance(row, dict) or row.get(self._field) is None:
            fields = bad_input.short_list(list(row)) if isinstance(row, dict) else "none"
            what = f"no field {self._field!r} in a row with the fields: {fields or 'none'}"
            hint = "name the field that holds the messages with messages_field="
            raise NotReadableError(bad_input.NO_FIELD, what, hint)
        messages = row[self._field]
        if not isinstance(messages, list) or not messages:
            what = f"field {self._field!r} is {type(messages).__name__}, not a list of messages"
            raise NotReadableError(NOT_CHAT, what if messages != [] else "it has no messages")
        found = {name: row[name] for name in FIELDS_OF_A_ROW if row.get(name)}
        if isinstance(found.get("tools"), str):
            found["tools"] = _parsed(found["tools"])
        if "tools" in found and not self._template.uses_tools:
            what = "it has tools, and the chat template does not use them"
            raise NotReadableError(NOT_CHAT, what, "name a template with tools: chat_template=")
        checked = [_message(message, number) for number, message in enumerate(messages, 1)]
        return {**found.pop("chat_template_kwargs", {}), **found, "messages": checked}

    def _apart(self, text: str) -> str:
        """Return a string of a message in which no special token can be found."""
        while self._special.search(text):  # again, for one that is inside another
            text = self._special.sub(lambda found: found[0][0] + APART + found[0][1:], text)
        before = APART if text.startswith(self._endings) else ""
        return before + text + (APART if text.endswith(self._beginnings) else "")


_conversations = lru_cache(maxsize=2)(Conversations)


def reader_of(settings: Settings, tokenizer: Tokenizer) -> Conversations:
    """Return the reader for these settings, with what it has proved so far."""
    assert settings.chat_template is not None
    assert settings.template_variables is not None
    return _conversations(
        settings.chat_template,
        settings.template_variables,
        settings.messages_field,
        settings.train_on,
        tuple(name for name in tokenizer.special_ids if name),
    )


def _message(message: Any, number: int) -> dict[str, Any]:
    """Return a message without fields that are null; refuse what is not text."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        what = f"message {number} has no role: {message!r:.80}"
        raise NotReadableError(NOT_CHAT, what, 'a message is {"role": "user", "content": "..."}')
    where = f"message {number} ({message['role']:.20})"
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or not isinstance(part.get("text"), str):
                what = f"{where} has a part that is not text: {part!r:.80}"
                raise NotReadableError(NOT_CHAT, what)
    elif not isinstance(content, str) and (content is not None or not message.get("tool_calls")):
        kind = "null" if content is None else type(content).__name__
        raise NotReadableError(NOT_CHAT, f"the content of {where} is {kind}, not text")
    return {name: value for name, value in message.items() if value is not None}


def _parsed(tools: str) -> Any:
    try:
        return orjson.loads(tools)
    except orjson.JSONDecodeError as error:
        raise NotReadableError(NOT_CHAT, f"its tools are text that is not JSON: {error}") from None


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with all strings in it changed, but for names."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: _changed(inner, change) for name, inner in value.items()}
    return [_changed(inner, change) for inner in value] if isinstance(value, list) else value


def _signs(specials: Sequence[str]) -> list[bytes]:
    """Return what is in JSON wherever a string has a special one, or begins or ends inside one."""
    signs = set()
    for written in (orjson.dumps(special)[1:-1] for special in specials):
        signs |= {written[:2], written[-2:], written[:1] + b'"', b'"' + written[-1:]}
    return sorted(signs)


class ConversationEncoder:
    """Encodes the texts that `Conversations` makes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._specials = {**tokenizer.special_ids, END: tokenizer.end_of_text_id}
        self._split = re.compile("|".join(filter(None, (tokenizer.special_pattern, END))))
        spellings = tokenizer.bytes_of_ids()
        self._spellings = spellings
        self._lengths = np.fromiter(map(len, spellings), np.int64, len(spellings))

    def encode(self, texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ids, where each conversation ends in them, and which tokens are targets.

        An end-of-text id that a template writes last is left out, as `PartWriter` adds one. The
        targets have a value for that one, too.
        """
        end = END.encode()
        marked = b"".join(text + end for text in texts)
        text = marked.decode().replace(ON, "").replace(OFF, "")
        specials = list(self._split.finditer(text))
        names = [special[0] for special in specials]
        edges = [0, *(edge for special in specials for edge in special.span()), len(text)]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        pieces = [text[i:j].replace(APART, "").encode() for i, j in pairs]
        ids, ends = self._tokenizer.encode_batch(pieces)
        sizes = np.array([len(name.encode()) for name in names])
        # Where tokens end in the bytes of all tokens: those of the pieces, and the special ones.
        stops = np.cumsum(np.insert(self._lengths[ids], ends[:-1], sizes))
        numbers = [self._specials[name.strip()] for name in names]
        ids = np.insert(ids, ends[:-1], np.array(numbers, ids.dtype))
        special_at = ends[:-1] + np.arange(len(names))
        targets = self._targets(marked, pieces, sizes, stops, special_at)
        is_end = np.zeros(len(ids), np.bool_)
        is_end[special_at] = [name == END for name in names]
        return _documents(ids, is_end, targets, self._tokenizer.end_of_text_id)

    def _targets(
        self,
        marked: bytes,
        pieces: Sequence[bytes],
        sizes: np.ndarray,
        stops: np.ndarray,
        special_at: np.ndarray,
    ) -> np.ndarray:
        """Return which tokens have a byte between ON and OFF."""
        marks = list(_MARKED.finditer(marked))
        at = np.array([mark.start() for mark in marks], np.int64)
        at -= _MARK_BYTES * np.arange(len(at))
        kinds = np.array([mark[0][-1] for mark in marks], np.uint8)
        if not self._tokenizer.joins_spellings:
            at = self._in_tokens(at, pieces, sizes, stops[special_at])
        starts = at[kinds == _ON_KIND]
        stop_at = at[kinds == _OFF_KIND]
        if len(starts) != len(stop_at) or (starts[1:] < stop_at[:-1]).any():
            raise PrepareError("the chat template has a {% generation %} inside another one")
        full = stop_at > starts
        change = np.zeros(len(stops) + 1, np.int64)
        np.add.at(change, np.searchsorted(stops, starts[full], "right"), 1)
        np.add.at(change, np.searchsorted(stops, stop_at[full] - 1, "right") + 1, -1)
        return np.cumsum(change[:-1]) > 0

    def _in_tokens(
        self, at: np.ndarray, pieces: Sequence[bytes], sizes: np.ndarray, special_stops: np.ndarray
    ) -> np.ndarray:
        """Return places in the text as places in the bytes of its tokens, which may be others."""
        lengths = np.array(list(map(len, pieces)))
        in_text = np.append(0, np.cumsum(lengths[:-1] + sizes))  # where each piece begins
        in_tokens = np.append(0, special_stops)
        grown = np.append(special_stops - sizes, in_tokens[-1]) - in_tokens - lengths
        piece = np.searchsorted(in_text, at, "right") - 1
        inside = at - in_text[piece]
        is_inside = (inside > 0) & (inside < lengths[piece])
        for k in np.flatnonzero(is_inside).tolist():
            if grown[piece[k]] or not pieces[piece[k]].isascii():
                inside[k] = self._bytes_of(pieces[piece[k]], int(inside[k]))
        is_beyond = inside >= lengths[piece]  # at the special token after it
        inside[is_beyond & ~is_inside] += grown[piece[is_beyond & ~is_inside]]
        moved: np.ndarray = in_tokens[piece] + inside
        return moved

    def _bytes_of(self, piece: bytes, size: int) -> int:
        """Return how many bytes the first `size` bytes of a piece are in its tokens' spelling.

        A normalizer may change a text: what is before an edge must then be so also alone.
        """
        ids, ends = self._tokenizer.encode_batch([piece[:size], piece])
        spelt, whole = (
            b"".join(map(self._spellings.__getitem__, part.tolist()))
            for part in np.split(ids, ends[:-1])
        )
        if not whole.startswith(spelt):
            raise PrepareError(
                f"the tokenizer {self._tokenizer.name} joins what is before an answer with its "
                f"beginning, or its end with what follows: {piece[max(0, size - 20) : size + 20]!r}"
            )
        return len(spelt)


def _documents(
    ids: np.ndarray, is_end: np.ndarray, targets: np.ndarray, end_of_text: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids without those that end documents, where these end, and all targets.

    Of two end-of-text ids at the end, one is left out: the one that remains is a target if either
    is.
    """
    (ends,) = np.nonzero(is_end)
    twice = ends[(ends > 0) & (ids[ends - 1] == end_of_text) & ~is_end[ends - 1]]
    targets[twice] |= targets[twice - 1]
    kept = np.ones(len(ids), np.bool_)
    kept[twice - 1] = False
    own = kept & ~is_end
    return ids[own], np.cumsum(own)[ends], targets[kept]
