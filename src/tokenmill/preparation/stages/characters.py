"""Which tokenizer a preparation uses; `chars` learns its vocabulary from the input first."""

from typing import Any

from tokenmill.preparation.plan import load_plan
from tokenmill.preparation.stages.clean_chunks import cleaned_chunks, naming_source
from tokenmill.preparation.workspace.task import leaves_receipt
from tokenmill.tokens.chars import CharsTokenizer, chars_of
from tokenmill.tokens.cuts import AT_CHARACTERS
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.tokenizer import Tokenizer


def load_tokenizer(
    name: str, end_of_text: str | None = None, token_pattern: str | None = None
) -> Tokenizer | None:
    """The tokenizer by name or path; None when it is yet to be learned from the input."""
    if name == "chars":
        return None
    # A rank file spells no special tokens: there the end of text is given by its number.
    if name.endswith(".tiktoken") and end_of_text is not None and end_of_text.isdecimal():
        return load(name, end_of_text=int(end_of_text), pattern=token_pattern)
    return load(name, end_of_text=end_of_text, pattern=token_pattern)


@leaves_receipt(lambda _, unit: ("characters", str(unit)))
def find_characters(out_dir: str, unit: int) -> dict[str, Any]:
    """Task: the characters of one unit."""
    plan = load_plan(out_dir)
    found: set[str] = set()
    with naming_source(plan, unit):
        for chunk in cleaned_chunks(plan, unit, AT_CHARACTERS):
            found |= chars_of(chunk.texts)
    facts = {"characters": "".join(sorted(found))}
    return plan.workspace.leave_receipt("characters", str(unit), [], facts)


def build_tokenizer(receipts: list[dict[str, Any]]) -> Tokenizer:
    """One vocabulary from the characters of all units."""
    return CharsTokenizer.build(set().union(*(receipt["characters"] for receipt in receipts)))
