"""Tokens in colour are the pieces that tiktoken cuts."""

import html
import re

import pytest
import tiktoken

from tokenmill.look.coloured_tokens import colour
from tokenmill.tokens.load_tokenizer import load

TEXT = "The mill grinds 1,234 words <b>&amp;</b>; <|endoftext|> isn't special"


def test_the_pieces_are_those_of_tiktoken():
    ranks = {token: n for n, token in enumerate(load("gpt2").bytes_of_ids()) if token}
    oracle = tiktoken.Encoding(
        "gpt2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={}, explicit_n_vocab=None
    )
    shown = re.findall(r'title="id ([\d,]+)">(.*?)</span>', colour(TEXT)._repr_html_())

    ids = oracle.encode_ordinary(TEXT)
    assert [int(number.replace(",", "")) for number, _ in shown] == ids
    assert [html.unescape(piece) for _, piece in shown] == [oracle.decode([n]) for n in ids]


GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def test_without_a_notebook_it_is_text_with_edges():
    assert repr(colour("two words")) == "two\u2502\u00b7words"


@pytest.mark.parametrize("tokenizer", ["bytes", "gpt2"])
def test_an_empty_text_has_no_piece(tokenizer):
    assert "<span" not in colour("", tokenizer)._repr_html_()
