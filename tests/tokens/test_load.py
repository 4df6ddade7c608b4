"""Loading by name and by path: what is known is found, what is not is refused with a way out."""

import base64
import hashlib
import itertools
import json

import pytest
from tokens.plain_bpe import PRINTABLE

from tokenmill.errors import FormatError
from tokenmill.tokens import tiktoken_file
from tokenmill.tokens.load_tokenizer import ENCODINGS, from_state, load

URL = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"


def test_an_unknown_name_lists_the_known_ones_and_the_nearest():
    with pytest.raises(ValueError, match=r"no tokenizer 'gtp2'.*bytes.*did you mean 'gpt2'"):
        load("gtp2")


def test_chars_says_that_it_must_learn_first():
    with pytest.raises(ValueError, match=r"CharsTokenizer\.learn"):
        load("chars")


def test_a_file_of_unknown_kind_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("a")

    with pytest.raises(FormatError, match="not a tokenizer file by its name"):
        load(str(tmp_path / "vocab.txt"))


def test_a_published_rank_file_is_known_by_its_hash_under_any_name(tmp_path, rank_file):
    (tmp_path / "whatever.tiktoken").write_bytes(rank_file)

    tokenizer = load(str(tmp_path / "whatever.tiktoken"))

    assert tokenizer == load("gpt2")


@pytest.mark.parametrize("stated", [{}, {"pattern": "cl100k"}, {"end_of_text": 50256}])
def test_an_unknown_rank_file_must_be_described(tmp_path, rank_file, stated):
    """A published name on other content is no description."""
    (tmp_path / "cl100k_base.tiktoken").write_bytes(rank_file + b"\n")

    with pytest.raises(FormatError, match="not one of the published rank files") as caught:
        load(str(tmp_path / "cl100k_base.tiktoken"), **stated)

    assert 'pattern="cl100k", end_of_text=100257' in caught.value.hint


def test_an_unknown_pattern_lists_the_known_ones(tmp_path, rank_file):
    (tmp_path / "a.tiktoken").write_bytes(rank_file)

    with pytest.raises(
        ValueError, match=r"unknown pattern 'gpt5'.*; known are: cl100k, deepseek3, gpt2, "
    ):
        load(str(tmp_path / "a.tiktoken"), pattern="gpt5", end_of_text=50256)


def test_an_end_of_text_that_is_a_token_already_is_refused(tmp_path, rank_file):
    (tmp_path / "a.tiktoken").write_bytes(rank_file)

    with pytest.raises(ValueError, match="end-of-text id 64 is already a token"):
        load(str(tmp_path / "a.tiktoken"), pattern="gpt2", end_of_text=64)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not base64! 1\n", "line 1: .* is not a token and its rank"),
        (b"YQ== 0\nYg== 0\n", "line 2: rank 0 is out of range or comes twice"),
        (b"YQ== -1\n", "line 1: rank -1"),
        (b"YQ== 0\n", "255 of the 256 single bytes have no rank"),
        (b"", "256 of the 256 single bytes"),
    ],
)
def test_a_damaged_rank_file_is_refused_by_line(tmp_path, content, message):
    (tmp_path / "a.tiktoken").write_bytes(content)

    with pytest.raises(FormatError, match=message):
        load(str(tmp_path / "a.tiktoken"), pattern="gpt2", end_of_text=300)


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_a_named_encoding_is_read_from_the_cache_of_tiktoken(
    tmp_path, monkeypatch, rank_file, variable
):
    """The file in the cache is checked: here it is one of GPT-2 under the name of cl100k."""
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / hashlib.sha1(URL.encode()).hexdigest()).write_bytes(rank_file)

    with pytest.raises(FormatError, match="is damaged: its sha256 is 306cd27f"):
        load("cl100k_base")


def test_an_encoding_that_is_not_on_this_machine_says_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    with pytest.raises(FormatError, match=str(tmp_path)) as caught:
        load("cl100k_base")

    assert URL in caught.value.hint


def test_the_published_table_agrees_with_tiktoken():
    import inspect

    from tiktoken_ext import openai_public

    for name in ("r50k_base", "p50k_base", "cl100k_base", "o200k_base"):
        source = inspect.getsource(getattr(openai_public, name))
        encoding = tiktoken_file.ENCODINGS[name]
        assert encoding.sha256 in source
        assert tiktoken_file.URL.format(name=name) in source
        assert f"ENDOFTEXT: {encoding.end_of_text_id}" in source


@pytest.mark.parametrize(
    "state",
    [
        {},
        [],
        {"kind": "future"},
        {"kind": "ranks"},
        {"kind": "ranks", "name": "a", "pattern": "gpt2", "specials": {}, "end_of_text": "x"},
        {"kind": "chars"},
        {"kind": "tokenizer.json", "name": "a"},
        {"kind": "sentencepiece", "name": "a", "model": "%%"},
    ],
)
def test_a_state_that_is_not_whole_is_refused(state):
    with pytest.raises(FormatError):
        from_state(state)


def test_the_names_are_those_of_the_published_encodings():
    """They are written down apart, so that a name is known before its family is imported."""
    assert tuple(tiktoken_file.ENCODINGS) == ENCODINGS


GREETING = "Hello, world! <|endoftext|> It's 1234 times   \u00fcber-\U0001f600\n\n\tdone " * 3


@pytest.fixture
def two_files(tmp_path, train_bpe):
    """A folder as `save_pretrained` of a slow tokenizer, or `model.save`, writes it."""
    made = train_bpe(GREETING * 5, size=350)
    folder = tmp_path / "gpt2_tokenizer"
    folder.mkdir()
    made.model.save(str(folder))
    assert {path.name for path in folder.iterdir()} == {"vocab.json", "merges.txt"}
    return folder, made


def test_a_folder_with_vocab_json_and_merges_txt_is_read(two_files):
    folder, made = two_files
    made.encode_special_tokens = True  # the characters of a special token are text

    for name in (folder, str(folder), f"{folder}/", folder / "vocab.json"):
        tokenizer = load(name)
        assert tokenizer.encode(GREETING).tolist() == made.encode(GREETING).ids
    assert tokenizer.decode(tokenizer.encode(GREETING)).decode() == GREETING
    assert tokenizer.end_of_text_id == made.token_to_id("<|endoftext|>")
    assert tokenizer.name == "gpt2_tokenizer"
    assert from_state(tokenizer.state()).fingerprint == tokenizer.fingerprint


def test_the_two_files_of_gpt2_are_gpt2(tmp_path, rank_file):
    """Made here from its ranks: a merge is the last step of making a token from its bytes."""
    ranks = {
        base64.b64decode(token): int(rank)
        for token, rank in map(bytes.split, rank_file.splitlines())
    }
    letters = {byte: chr(byte) for byte in PRINTABLE}
    letters |= {
        byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in letters)
    }
    spell = lambda token: "".join(letters[byte] for byte in token)  # noqa: E731
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1])[256:]:
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            pairs = [ranks.get(a + b, rank) for a, b in itertools.pairwise(parts)]
            at = pairs.index(min(pairs))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        merges.append(f"{spell(parts[0])} {spell(parts[1])}")
    vocab = {spell(token): rank for token, rank in ranks.items()} | {"<|endoftext|>": 50256}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), "utf-8")

    assert load(tmp_path).fingerprint == load("gpt2").fingerprint


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("vocab.json", "[]", "vocab.json"),
        ("vocab.json", "{", "vocab.json"),
        ("merges.txt", None, r"there is no .*merges.txt"),
        ("merges.txt", "#version: 0.2\na b c\n", "gpt2_tokenizer"),
        ("merges.txt", "#version: 0.2\nq \u0120nothing\n", "gpt2_tokenizer"),
        ("tokenizer_config.json", '{"tokenizer_class": "Qwen2Tokenizer"}', "Qwen2Tokenizer"),
    ],
)
def test_what_is_not_the_two_files_of_gpt2_is_refused(two_files, file, content, message):
    folder, _ = two_files
    (folder / file).unlink(missing_ok=True)
    if content is not None:
        (folder / file).write_text(content)

    with pytest.raises(FormatError, match=message):
        load(folder)
