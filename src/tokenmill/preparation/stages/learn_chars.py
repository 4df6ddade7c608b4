"""characters: the characters of the input, for the tokenizer `chars`."""

from tokenmill.preparation.planning.plan import load_plan
from tokenmill.preparation.stages.unit_text import naming_source, text_of
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.tokens.bytes_and_chars import chars_of


def find_characters(out_dir: str, unit: int) -> Receipt:
    """Task: the characters of one unit."""
    plan = load_plan(out_dir)
    characters: set[str] = set()
    num_bytes = 0
    with naming_source(plan, unit):
        for chunk in plan.workspace.noting(unit, text_of(plan, unit, None, 0)):
            characters |= chars_of(chunk.texts)
            num_bytes += chunk.bytes_in
    facts = {"characters": "".join(sorted(characters)), "counts": {"bytes_in": num_bytes}}
    return plan.workspace.leave_receipt("characters", str(unit), [], facts)
