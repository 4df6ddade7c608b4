"""What a tokenizer makes of a text, in colour, for notebooks."""

from tokenmill.base.notebook import coloured
from tokenmill.look.show import ShownToken, render, show_ids
from tokenmill.tokens.load_tokenizer import load


class ColouredTokens(list[ShownToken]):
    """Some tokens; a notebook shows them in colours, with the id of each on hover."""

    def __repr__(self) -> str:
        return render(self, color=False)

    def _repr_html_(self) -> str:
        return coloured((token.text, f"id {token.id:,}") for token in self)


def colour(text: str, tokenizer: str = "gpt2") -> ColouredTokens:
    """Return the tokens of a text, to be looked at."""
    encoder = load(tokenizer)
    return ColouredTokens(show_ids(encoder.encode(text), encoder))
