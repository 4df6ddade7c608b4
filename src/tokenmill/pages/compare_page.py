"""`tokenmill tokenizer compare --html`: two tokenizers side by side, in one file."""

from tokenmill.base.human import human_bytes, human_count, plural
from tokenmill.base.markup import Html, join, tag, text
from tokenmill.look.tokenizers import Comparison, ScriptFigures
from tokenmill.pages import plots
from tokenmill.pages.html import cards, note, offline_page, section, table

COLOURS = ("bar", "second")
LEAST_SHARE = 1000  # a script with less than this part of the text has no bars
Row = tuple[Html, float, str]


def compare_page(found: Comparison) -> str:
    """The page about a comparison."""
    first, second = found.tokenizers
    title = f"{first.name} and {second.name}"
    words = f"{human_bytes(found.text_bytes)} of text, {plural(found.words, 'word')}"
    files = f"{plural(found.files, 'file')} of {human_bytes(found.bytes_in)}"
    body = join(
        tag("h1", title),
        tag("p", f"{words}, from {files}", class_="lead"),
        cards(
            (f"bytes a token, {first.name}", f"{first.bytes_per_token:.2f}"),
            (f"bytes a token, {second.name}", f"{second.bytes_per_token:.2f}"),
            (
                f"tokens of {second.name} for each one of {first.name}",
                f"{second.tokens / max(1, first.tokens):.3f}",
            ),
            ("tokens in both vocabularies", human_count(found.shared_tokens)),
        ),
        section(
            "Side by side",
            table(("", first.name, second.name), found.side_by_side(), class_="pair"),
        ),
        _by_script(found),
        tag("footer", note("Speed is that of one process on the machine that made this page.")),
    )
    return offline_page(f"{title} - tokenmill tokenizer compare", body)


def _by_script(found: Comparison) -> Html:
    """Two plots over the same scripts; those of a few characters only are left out."""
    first, second = found.tokenizers
    key = note(
        *(tag("i", class_="key"), first.name, " "),
        *(tag("i", class_="key second"), second.name),
    )
    shown = [one for one in found.scripts if one.text_bytes * LEAST_SHARE >= found.text_bytes]
    words: list[Row] = []
    sizes: list[Row] = []
    for script in shown:
        size = human_bytes(script.text_bytes)
        if script.words:
            words += _two_rows(script, f"{plural(script.words, 'word')}, {size}", script.fertility)
        sizes += _two_rows(script, size, script.bytes_per_token)
    rare = ", ".join(one.script for one in found.scripts if one not in shown)
    left_out = note(f"Not shown, less than 0.1 % of the text: {rare}.") if rare else None
    a_word = plots.bars(words, COLOURS) if words else note("The text has no words.")
    return join(
        section("Tokens a word, by script", key, a_word, left_out),
        section("Bytes a token, by script", key, plots.bars(sizes, COLOURS), left_out),
    )


def _two_rows(script: ScriptFigures, below: str, values: tuple[float, float]) -> list[Row]:
    """A bar for each tokenizer; the name of the script and the size of its text to the left."""
    labels = (text(script.script), tag("span", below, class_="place"))
    return [(label, value, f"{value:.2f}") for label, value in zip(labels, values, strict=True)]
