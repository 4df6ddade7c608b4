"""Bytes that must be UTF-8, for tokenizers that work on characters."""

from collections.abc import Sequence

from tokenmill.errors import BadInputError


def decoded(texts: Sequence[bytes], name: str) -> list[str]:
    """Each text as a string; the first one that is not UTF-8 is a BadInputError."""
    strings = []
    for number, text in enumerate(texts):
        try:
            strings.append(text.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise BadInputError(
                f"text {number} is not UTF-8 at byte {error.start}, and the tokenizer {name} "
                "reads characters",
                hint="the tokenizer `bytes` takes anything",
            ) from None
    return strings
