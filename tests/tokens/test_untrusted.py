"""Tokenizer files and states that nobody vouches for: a clear error, before memory is taken."""

import json

import numpy as np
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from tokenmill.errors import FormatError, TokenmillError
from tokenmill.tokens.encoders.library_failures import failures_of
from tokenmill.tokens.load_tokenizer import from_state, load

# What datasets of gpt2 hold that were made before special tokens were compared.
OLD_GPT2 = {
    "kind": "ranks",
    "name": "gpt2",
    "pattern": "gpt2",
    "specials": {"<|endoftext|>": 50256},
    "end_of_text": "<|endoftext|>",
    "fingerprint": "0535bd0bd9170bb53321b65a1c3f17ba",
}
NUMBERS = [-1, 0, 50255, 50257, 2**31 - 1, 2**31, 2**63, -(2**63)]


def test_a_state_of_gpt2_opens_as_ever():
    assert from_state(OLD_GPT2) == load("gpt2")
    assert load("gpt2").state() == OLD_GPT2


@pytest.mark.parametrize("number", NUMBERS)
def test_gpt2_with_other_special_tokens_is_not_gpt2(number):
    moved = {"specials": {"<|endoftext|>": number}}
    more = {"specials": {"<|endoftext|>": 50256, "<|more|>": number}}
    named = {"specials": {"<|other|>": 50256}, "end_of_text": "<|other|>"}

    for change in (moved, more, named):
        with pytest.raises(FormatError, match="special tokens of the bundled gpt2"):
            from_state({**OLD_GPT2, **change})


@pytest.fixture(scope="module")
def states(tmp_path_factory, rank_file, train_bpe):
    folder = tmp_path_factory.mktemp("states")
    (folder / "a.tiktoken").write_bytes(b"\n".join(rank_file.splitlines()[:400]))
    trained = train_bpe("the mill turns " * 9, 300, added=["<|endoftext|>", "<s>"])
    trained.save(str(folder / "tokenizer.json"))
    ranks = load(str(folder / "a.tiktoken"), pattern="gpt2", end_of_text=400)
    return ranks.state(), load(str(folder / "tokenizer.json")).state()


@pytest.mark.parametrize("number", [-1, 7, 401, 2**31 - 1, 2**64])
def test_special_tokens_are_part_of_the_fingerprint_of_ranks(states, number):
    with pytest.raises(TokenmillError):
        from_state({**states[0], "specials": {"<|endoftext|>": number}})
    with pytest.raises(TokenmillError):
        from_state({**states[0], "specials": {"<|endoftext|>": 400, "<more>": number}})


def changed_json(state, change):
    tree = json.loads(state["json"])
    change(tree["added_tokens"])
    return {**state, "json": json.dumps(tree)}


@pytest.mark.parametrize(
    "change",
    [
        lambda added: added[1].update(special=False),
        lambda added: added[1].update(content="<t>"),
        lambda added: added[1].update(id=2**31 - 1),
        lambda added: added[1].update(id=-3),
        lambda added: added.pop(),
    ],
)
def test_special_tokens_are_compared_with_those_of_the_file(states, change):
    with pytest.raises(TokenmillError):
        from_state(changed_json(states[1], change))


def test_an_older_state_names_no_special_tokens_and_opens(states):
    old = {key: value for key, value in states[1].items() if key != "special_ids"}

    assert from_state(old).state() == states[1]


@pytest.mark.parametrize("number", [-1, 301, 2**31 - 1])
def test_an_end_of_text_that_no_token_has_is_refused(states, number):
    with pytest.raises(FormatError, match=r"end-of-text id .* is not in the vocabulary"):
        from_state({**states[1], "end_of_text_id": number})


def test_merges_without_their_prefix_never_reach_the_library_that_they_end(tmp_path):
    """`tokenizers` 0.23 aborts the whole process on such a file."""
    vocab = {"\u2581": 0, "a": 1, "\u2581a": 2, "</s>": 3}
    content = {
        "added_tokens": [{"id": 3, "content": "</s>", "special": True}],
        "model": {"type": "BPE", "vocab": vocab, "merges": [["\u2581", "a"]]},
    }
    content["model"]["continuing_subword_prefix"] = "##"
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))

    with pytest.raises(FormatError, match="does not continue with '##'"):
        load(str(tmp_path / "tokenizer.json"))


def test_what_libraries_raise_is_an_error_of_ours():
    class PanicException(BaseException):  # as pyo3 names it, whichever library raises it
        pass

    for error in (PanicException("index 7 out of range\nbacktrace"), Exception(""), OSError("x")):
        with pytest.raises(FormatError, match="lib cannot read a"), failures_of("lib", "read a"):
            raise error
    with pytest.raises(KeyboardInterrupt), failures_of("lib", "read a"):
        raise KeyboardInterrupt


def test_wordpiece_and_unigram_files_give_the_ids_of_tokenizers(tmp_path):
    words = {"[UNK]": 0, "mill": 1, "##er": 2, "the": 3, "</s>": 4}
    pieces = [
        ("<unk>", 0.0),
        ("\u2581the", -1.0),
        ("\u2581mill", -2.0),
        ("er", -3.0),
        ("</s>", 0.0),
    ]
    for model in (models.WordPiece(words, unk_token="[UNK]"), models.Unigram(pieces, unk_id=0)):
        package = tokenizers.Tokenizer(model)
        is_pieces = isinstance(model, models.Unigram)
        package.pre_tokenizer = (
            pre_tokenizers.Metaspace if is_pieces else pre_tokenizers.Whitespace
        )()
        package.add_special_tokens(["</s>"])
        package.save(str(tmp_path / "tokenizer.json"))

        tokenizer = load(str(tmp_path / "tokenizer.json"))

        assert tokenizer.backend == "tokenizers"
        found = tokenizer.encode("the miller").tolist()
        assert found == package.encode("the miller", add_special_tokens=False).ids
        assert np.array_equal(tokenizer.bytes_of_ids()[2], b" mill" if is_pieces else b"er")
