"""The fields of a row that are its text: one, or several joined by a template `{title}: {body}`."""

import re
from collections.abc import Sequence

_FIELD = re.compile(r"\{([^{}]+)\}")


class TextFields:
    """The fields that `text_field` names, and the text before, between and after them."""

    def __init__(self, text_field: str) -> None:
        parts = _FIELD.split(text_field)  # text, name, text, name, ..., text
        self.is_template = len(parts) > 1
        if self.is_template and re.search("[{}]", "".join(parts[::2])):
            raise ValueError(
                f"text_field is {text_field[:80]!r}, with a brace that is not part of a {{field}}; "
                'write it like "{title}\\n\\n{body}"'
            )
        self.names = parts[1::2] or [text_field]
        self._parts = [part.encode() for part in parts]

    def join(self, values: Sequence[bytes]) -> bytes:
        """Return the values of all fields with the text between them."""
        if not self.is_template:
            return values[0]
        parts = [*self._parts]
        parts[1::2] = values
        return b"".join(parts)
