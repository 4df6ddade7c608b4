"""`tokenmill tokenizer show`: print the facts about a tokenizer."""

from dataclasses import asdict
from typing import Any

import click

from tokenmill.base.human import plural
from tokenmill.cli.flags import settings_flags
from tokenmill.cli.outcome import Outcome, prints_outcome
from tokenmill.preparation.planning.settings import Settings

SHOWN_SPECIALS = 12


@click.command()
@click.argument("name")
@settings_flags(Settings, only=("end_of_text", "token_pattern"))
@prints_outcome
def show(name: str, end_of_text: str | None, token_pattern: str | None, quiet: bool) -> Outcome:
    """Print what a tokenizer is: family, engine, ids, special ids, split pattern.

    NAME is what `tokenmill prepare --tokenizer` takes: gpt2, a tokenizer.json or its folder, a
    .tiktoken or SentencePiece .model file.

    \b
    Examples:
        tokenmill tokenizer show gpt2
        tokenmill tokenizer show tok/
    """
    from tokenmill.look.tokenizer_facts import facts_of
    from tokenmill.tokens.load_tokenizer import load

    is_id = end_of_text is not None and end_of_text.isdecimal()
    end = int(end_of_text) if end_of_text is not None and is_id else end_of_text
    facts = facts_of(load(name, end_of_text=end, pattern=token_pattern))
    return Outcome(asdict(facts), results=_lines(facts))


def _lines(facts: Any) -> list[str]:
    specials = [f"{text} {number}" for text, number in facts.special_ids.items()]
    more = len(specials) - SHOWN_SPECIALS
    shown = ", ".join(specials[:SHOWN_SPECIALS]) + (f" and {more:,} more" if more > 0 else "")
    known = {
        "name": facts.name,
        "family": facts.family,
        "engine": facts.engine,
        "ids": f"{facts.vocab_size:,}; the longest token has {plural(facts.longest_token, 'byte')}",
        "end of text": str(facts.end_of_text_id),
        "special ids": shown or "none",
        "pattern": facts.pattern or "none",
        "fingerprint": facts.fingerprint,
    }
    if facts.regex and facts.regex != facts.pattern:
        known["pattern"] += f": {facts.regex}"
    return [f"{label:<12}  {value}" for label, value in known.items()]
