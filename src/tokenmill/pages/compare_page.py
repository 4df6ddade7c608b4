"""`tokenmill tokenizer compare --html`: two tokenizers side by side, in one file."""

from tokenmill.base.human import human_bytes, human_count, plural
from tokenmill.base.markup import Html, join, tag, text
from tokenmill.look.tokenizers.compare_tokenizers import Comparison
from tokenmill.pages.elements import plots
from tokenmill.pages.elements.html import cards, note, offline_page, section, table


def compare_page(found: Comparison) -> str:
    """The page about a comparison."""
    first, second = found.tokenizers
    title = f"{first.name} and {second.name}"
    body = join(
        tag("h1", title),
        tag("p", _lead(found), class_="lead"),
        cards(
            (f"bytes a token, {first.name}", f"{first.bytes_per_token:.2f}"),
            (f"bytes a token, {second.name}", f"{second.bytes_per_token:.2f}"),
            (
                f"tokens of {second.name} to one of {first.name}",
                f"{second.tokens / max(1, first.tokens):.3f}",
            ),
            ("tokens in both vocabularies", human_count(found.shared_tokens)),
        ),
        section("Side by side", _side_by_side(found)),
        section("Tokens a word, by script", _by_script(found)),
        section("Bytes a token, by script", _bytes_by_script(found)),
        tag("footer", note("Speed is that of one process on the machine that made this page.")),
    )
    return offline_page(f"{title} - tokenmill tokenizer compare", body)


def _lead(found: Comparison) -> str:
    words = f"{human_bytes(found.text_bytes)} of text, {plural(found.words, 'word')}"
    return f"{words}, from {plural(found.files, 'file')} of {human_bytes(found.bytes_in)}"


def _side_by_side(found: Comparison) -> Html:
    first, second = found.tokenizers
    rows = [
        ("family", first.family, second.family),
        ("engine", first.engine, second.engine),
        ("ids", f"{first.vocab_size:,}", f"{second.vocab_size:,}"),
        ("ids used by this text", f"{first.used_ids:,}", f"{second.used_ids:,}"),
        ("tokens", f"{first.tokens:,}", f"{second.tokens:,}"),
        ("bytes a token", f"{first.bytes_per_token:.3f}", f"{second.bytes_per_token:.3f}"),
        ("tokens a word", f"{first.tokens_per_word:.3f}", f"{second.tokens_per_word:.3f}"),
        ("speed", *(f"{human_bytes(one.bytes_per_second)}/s" for one in found.tokenizers)),
    ]
    return table(("", first.name, second.name), rows)


def _by_script(found: Comparison) -> Html:
    rows = []
    for script in found.scripts:
        if script.words:
            words = f"{plural(script.words, 'word')}, {human_bytes(script.text_bytes)}"
            for one, value in zip(found.tokenizers, script.fertility, strict=True):
                rows.append((text(f"{script.script}: {one.name}"), value, f"{value:.2f} ({words})"))
    return plots.bars(rows) if rows else note("The text has no words.")


def _bytes_by_script(found: Comparison) -> Html:
    rows = []
    for script in found.scripts:
        for one, tokens in zip(found.tokenizers, script.tokens, strict=True):
            value = script.text_bytes / max(1, tokens)
            label = text(f"{script.script}: {one.name}")
            rows.append((label, value, f"{value:.2f} ({plural(tokens, 'token')})"))
    return plots.bars(rows)
