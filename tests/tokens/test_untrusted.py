"""Tokenizer files and states that nobody vouches for: a clear error, before memory is taken."""

import json
from itertools import pairwise

import numpy as np
import pytest
import tokenizers
from special_tokens import byte_letters
from tokenizers import models, pre_tokenizers

from tokenmill.errors import FormatError, TokenmillError
from tokenmill.tokens.load_tokenizer import from_state, load
from tokenmill.tokens.tokenizer import failures_of

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


def byte_level(tmp_path, added=(), normalizer=None, decoder=None):
    """A tokenizer.json of single bytes; `added` tokens have the ids from 257 on, or their own."""
    vocab = {letter: number for number, letter in byte_letters().items()} | {"<unk>": 256}
    end = {"content": "</s>", "id": 257, "special": True, "normalized": False}
    tokens = [{"id": 258 + n, "normalized": True, **token} for n, token in enumerate(added)]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    content = {
        "added_tokens": [{**flags, **token} for token in (end, *tokens)],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "decoder": decoder,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    return str(tmp_path / "tokenizer.json")


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps), "decoders": list(steps)}


@pytest.mark.parametrize(
    "steps",
    [
        replace(" ", "a" * 5000),
        {"type": "Prepend", "prepend": "a" * 5000},
        sequence(*(replace(letter, following * 4) for letter, following in pairwise("abcdef"))),
        sequence(replace(" ", "xy"), replace("yx", "z" * 40), replace("z", "a" * 40)),
        sequence(*[{"type": "Replace", "pattern": {"Regex": "."}, "content": "b" * 9}] * 40),
    ],
)
def test_steps_that_make_gigabytes_of_a_text_are_refused(tmp_path, steps):
    """`tokenizers` takes all memory there is."""
    for part in ("normalizer", "decoder"):
        with pytest.raises(FormatError, match=f"its {part} makes more than 64 characters of one"):
            load(byte_level(tmp_path, **{part: steps}))


def test_steps_that_leave_a_text_about_as_long_are_used(tmp_path):
    steps = [replace(f"{letter}{letter}", f"-{letter}{letter}{letter}-") for letter in "abcdefghij"]

    path = byte_level(tmp_path, normalizer=sequence(*steps, replace("\n", "[newline]")))
    assert_same_ids(path, "aa\nbb")


def assert_same_ids(path, text):
    package = tokenizers.Tokenizer.from_file(path)
    expected = package.encode(text, add_special_tokens=False).ids
    assert load(path).encode(text).tolist() == expected


@pytest.mark.parametrize("normalizer", [{"type": "Strip", "strip_left": True, "strip_right": True}])
def test_an_added_token_of_which_nothing_is_left_is_refused(tmp_path, normalizer):
    """`tokenizers` finds it again and again, until there is no memory left."""
    path = byte_level(tmp_path, [{"content": "\n\n"}], normalizer)
    with pytest.raises(FormatError, match=r"leaves nothing of its token '\\n\\n'"):
        load(path)

    assert_same_ids(byte_level(tmp_path, [{"content": "\n\n"}]), "a\n\nb")


@pytest.mark.parametrize("token", [{"id": 256}, {"id": 300}, {"content": "a"}])
def test_an_added_token_that_the_package_gives_another_id_is_refused(tmp_path, token):
    """Its text would be that of another token."""
    path = byte_level(tmp_path, [{"content": "<mill>", **token}])

    with pytest.raises(
        FormatError, match=r"gives the added token '.*' the id .*, but `tokenizers`"
    ):
        load(path)


def test_added_tokens_of_which_the_package_finds_one_by_chance_are_refused(tmp_path):
    tokens = [{"content": "<Mill>"}, {"content": "<mill>"}]
    with pytest.raises(FormatError, match="'<Mill>' and '<mill>'"):
        load(byte_level(tmp_path, tokens, {"type": "Lowercase"}))

    assert_same_ids(byte_level(tmp_path, tokens), "<Mill><mill>")


@pytest.mark.parametrize(("normalized", "backend"), [(True, "tokenizers"), (False, "gigatoken")])
def test_added_tokens_are_looked_for_in_the_normalized_text(tmp_path, normalized, backend):
    path = byte_level(tmp_path, [{"content": "  A", "normalized": normalized}], {"type": "NFC"})

    assert load(path).backend == backend
    assert_same_ids(path, "A  A\u0301  \u0301;  \u037e")


@pytest.mark.parametrize(("token", "backend"), [("  ", "tokenizers"), ("--", "gigatoken")])
def test_added_tokens_that_take_the_spaces_next_to_them_leave_tokens_of_spaces(
    tmp_path, token, backend
):
    path = byte_level(tmp_path, [{"content": "<mill>", "rstrip": True}, {"content": token}])

    assert load(path).backend == backend
    assert_same_ids(path, "a<mill>  b <mill> --")


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


@pytest.mark.parametrize("dropout", [0.5, 1.0, "much"])
def test_a_tokenizer_that_drops_merges_at_random_is_refused(tmp_path, train_bpe, dropout):
    trained = json.loads(train_bpe("the mill turns " * 9, 300, added=["<|endoftext|>"]).to_str())
    path = tmp_path / "tokenizer.json"
    for accepted in (None, 0.0):
        path.write_text(json.dumps({**trained, "model": {**trained["model"], "dropout": accepted}}))
        tokenizer = load(str(path))
        assert len({tokenizer.encode("the mill " * 99).tobytes() for _ in range(3)}) == 1

    path.write_text(json.dumps({**trained, "model": {**trained["model"], "dropout": dropout}}))
    with pytest.raises(FormatError, match=r'"dropout": .*other ids at every run') as caught:
        load(str(path))
    assert "null" in caught.value.hint
