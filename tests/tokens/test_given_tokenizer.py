"""Tokenizers that users hold: objects of other packages give their own ids, or are refused."""

import base64
import re
from dataclasses import replace

import numpy as np
import pytest
import tiktoken
import tokenizers
import transformers
from hypothesis import HealthCheck, given, settings
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
from tokens.patterns import PATTERNS
from tokens.texts import TEXTS

import tokenmill
from tokenmill.errors import FormatError
from tokenmill.tokens.bytes_and_chars import CharsTokenizer
from tokenmill.train.config import TrainConfig

TEXT = "The cat sat on the mat; the cats sat. <|endoftext|> caf\u00e9 \u6c34\u8f66 12345\n" * 40
quickly = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def bpe(train_bpe):
    return train_bpe(TEXT)


def unigram():
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=80, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


def word_piece():
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=90, special_tokens=["[UNK]", "[EOS]"], show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


def as_text(tokenizer, text):
    """The ids that an object of `tokenizers` itself gives, if nothing in a text is special."""
    tokenizer.encode_special_tokens = True
    try:
        return tokenizer.encode(text, add_special_tokens=False).ids
    finally:
        tokenizer.encode_special_tokens = False


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k", "own"])
def test_an_encoding_of_tiktoken_gives_its_own_ids(oracle, name):
    encoding = oracle("gpt2" if name == "own" else name)
    if name == "own":
        encoding = tiktoken.Encoding(
            "own",
            pat_str=r"\p{L}+|\s+|[^\s\p{L}]",
            mergeable_ranks=encoding._mergeable_ranks,
            special_tokens={"<|endoftext|>": 50256, "<|fim|>": 50300},
        )
    ours = tokenmill.load_tokenizer(encoding)

    @quickly
    @given(TEXTS)
    def same(text):
        assert ours.encode(text).tolist() == encoding.encode_ordinary(text)

    same()
    assert ours.special_ids == encoding._special_tokens
    assert ours.name == name


def test_gpt2_as_an_encoding_is_gpt2(oracle):
    assert tokenmill.load_tokenizer(oracle("gpt2")) == tokenmill.load_tokenizer("gpt2")


@pytest.mark.parametrize("kind", ["bpe", "added", "normalized", "unigram", "word_piece"])
def test_an_object_of_tokenizers_gives_its_own_ids(train_bpe, bpe, kind):
    tokenizer = {"unigram": unigram, "word_piece": word_piece}.get(kind, lambda: bpe)()
    if kind == "added":
        tokenizer = train_bpe(TEXT)
        tokenizer.add_tokens(["zZs", tokenizers.AddedToken("Tm", lstrip=True, single_word=True)])
    if kind == "normalized":
        tokenizer = train_bpe(TEXT)
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    ours = tokenmill.load_tokenizer(tokenizer)

    @quickly
    @given(TEXTS)
    def same(text):
        assert ours.encode(text).tolist() == as_text(tokenizer, text)

    same()
    assert ours.vocab_size == tokenizer.get_vocab_size()


def test_a_fast_tokenizer_of_transformers_gives_its_own_ids(bpe):
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|endoftext|>", model_max_length=8
    )
    fast.add_tokens(["zZs"])
    ours = tokenmill.load_tokenizer(fast)

    @quickly
    @given(TEXTS)
    def same(text):
        asked = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        assert ours.encode(text).tolist() == fast.encode(text, **asked)

    same()


def files_of(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", ["tokenizers", "transformers", "ours", "tiktoken"])
def test_a_dataset_has_the_same_bytes_as_by_the_file(tmp_path, bpe, oracle, kind):
    (tmp_path / "a.txt").write_text(TEXT)
    name = tmp_path / "tokenizer.json"
    bpe.save(str(name))
    given = bpe
    if kind == "transformers":
        given = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe)
        given.save_pretrained(tmp_path)
    elif kind == "ours":
        given = tokenmill.load_tokenizer(name)
    elif kind == "tiktoken":
        given = oracle("gpt2")
        name = "gpt2"

    tokenmill.prepare(tmp_path / "a.txt", tmp_path / "object", tokenizer=given, workers=1)
    tokenmill.prepare(tmp_path / "a.txt", tmp_path / "file", tokenizer=name, workers=1)
    again = tokenmill.prepare(tmp_path / "a.txt", tmp_path / "file", tokenizer=given, workers=1)

    assert files_of(tmp_path / "object") == files_of(tmp_path / "file")
    assert again.already_there


def test_every_door_takes_an_object(tmp_path, bpe):
    text = tmp_path / "a.txt"
    text.write_text(TEXT)
    ids = tokenmill.load_tokenizer(bpe).encode(TEXT)
    tokenmill.prepare(text, tmp_path / "data", val_fraction=0.0, workers=1)

    tokenmill.pretokenize(text, tokenizer=bpe)
    tokenmill.retokenize(tmp_path / "data", tmp_path / "other", tokenizer=bpe)
    other = tokenmill.open(tmp_path / "other")

    assert np.load(tmp_path / "a.npy")[: len(ids)].tolist() == ids.tolist()
    assert other.tokens(0, len(ids)).tolist() == ids.tolist()
    assert tokenmill.from_array(ids, tokenizer=bpe).decode(ids) == TEXT
    assert tokenmill.open(tmp_path / "other", tokenizer=bpe).decode(ids) == TEXT
    assert TrainConfig(tokenizer=bpe).tokenizer.endswith("/tokenizer.json")
    with pytest.raises(tokenmill.TokenmillError, match="was made with a tokenizer of fingerprint"):
        _ = tokenmill.open(tmp_path / "data", tokenizer=bpe).tokenizer


def test_a_dataset_gives_its_tokenizer(tmp_path, bpe):
    (tmp_path / "a.txt").write_text(TEXT)
    tokenmill.prepare(tmp_path / "a.txt", tmp_path / "data", tokenizer=bpe, workers=1)

    by_folder = tokenmill.load_tokenizer(tmp_path / "data")
    by_dataset = tokenmill.load_tokenizer(tokenmill.open(tmp_path / "data"))

    expected = tokenmill.load_tokenizer(bpe).fingerprint
    assert by_folder.fingerprint == by_dataset.fingerprint == expected
    with pytest.raises(TypeError, match="tokenizer is None"):
        tokenmill.load_tokenizer(tokenmill.from_array([1, 2]))


def test_characters_that_were_learned_are_a_tokenizer(tmp_path):
    (tmp_path / "a.txt").write_text("abc abc")
    learned = CharsTokenizer.learn([b"abcdefg "])

    tokenmill.prepare(tmp_path / "a.txt", tmp_path / "data", tokenizer=learned, workers=1)

    assert tokenmill.open(tmp_path / "data").tokenizer == learned


def test_the_end_of_a_text_is_named_where_the_file_is_not_clear(train_bpe):
    several = train_bpe(TEXT, added=["<|endoftext|>", "</s>", "<|im_end|>"])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=several, eos_token="<|im_end|>")
    for tokenizer in (several, fast):
        with pytest.raises(FormatError, match="it is not clear which token ends a text"):
            tokenmill.load_tokenizer(tokenizer)

        assert tokenmill.load_tokenizer(tokenizer, end_of_text="<|im_end|>").end_of_text_id == 2


def test_the_end_of_a_text_of_an_encoding_is_known_or_named(oracle):
    encoding = tiktoken.Encoding(
        "chat",
        pat_str=PATTERNS["gpt2"],
        mergeable_ranks=oracle("gpt2")._mergeable_ranks,
        special_tokens={"<|im_end|>": 50256},
    )

    with pytest.raises(FormatError, match="names none that is known"):
        tokenmill.load_tokenizer(encoding)
    for end in ("<|im_end|>", 50256):
        assert tokenmill.load_tokenizer(encoding, end_of_text=end).end_of_text == "<|im_end|>"


def test_an_own_object_keeps_its_end_of_text(bpe):
    ours = tokenmill.load_tokenizer(bpe)

    assert tokenmill.load_tokenizer(ours, end_of_text="<|endoftext|>").fingerprint
    with pytest.raises(ValueError, match=r"end_of_text='cat': tokenizer.json has"):
        tokenmill.load_tokenizer(ours, end_of_text="cat")


class Shouting:
    """A pre-tokenizer in Python."""

    def pre_tokenize(self, pretok):
        pretok.split(lambda i, text: [text])


class Lowered(transformers.PreTrainedTokenizerFast):
    def _encode_plus(self, text, *args, **options):
        return super()._encode_plus(text.lower(), *args, **options)


class Doubled(tiktoken.Encoding):
    def encode_ordinary(self, text):
        return super().encode_ordinary(text) * 2


def refused_objects(train_bpe, oracle):
    by_python = train_bpe(TEXT)
    by_python.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Shouting())
    yield "Custom PreTokenizer cannot be serialized", by_python
    dropping = train_bpe(TEXT)
    dropping.model.dropout = 0.3
    yield 'has "dropout": 0.3', dropping
    cutting = train_bpe(TEXT)
    cutting.enable_truncation(4)
    yield "the Tokenizer gives other ids than the file that it writes", cutting
    lowered = Lowered(tokenizer_object=train_bpe(TEXT), eos_token="<|endoftext|>")
    yield "the Lowered gives other ids than the file that it writes", lowered
    ranks = oracle("gpt2")._mergeable_ranks
    special = {"<|endoftext|>": 50256}
    doubled = Doubled("d", pat_str=r"[\s\S]", mergeable_ranks=ranks, special_tokens=special)
    yield "tiktoken's encoding d gives other ids than the file", doubled
    some = dict(list(ranks.items())[:100])
    few = tiktoken.Encoding("few", pat_str="a|.", mergeable_ranks=some, special_tokens=special)
    yield "156 of the 256 single bytes have no rank", few


def test_what_is_not_in_a_file_is_refused_by_name(train_bpe, oracle):
    for message, tokenizer in refused_objects(train_bpe, oracle):
        with pytest.raises(FormatError, match=re.escape(message)):
            tokenmill.load_tokenizer(tokenizer)


@pytest.mark.parametrize("given", [5, ["gpt2"], object(), "x" * 500])
def test_other_things_are_refused_in_few_words(given):
    with pytest.raises((TypeError, ValueError), match="tokenizer") as error:
        tokenmill.load_tokenizer(given)
    assert len(str(error.value)) < 500


def test_a_file_of_ranks_with_another_pattern_is_not_the_bundled_one(oracle):
    encoding = oracle("gpt2")
    other = tiktoken.Encoding(
        "gpt2",
        pat_str=PATTERNS["cl100k"],
        mergeable_ranks=encoding._mergeable_ranks,
        special_tokens={"<|endoftext|>": 50256},
    )

    ours = tokenmill.load_tokenizer(other)

    assert ours.fingerprint != tokenmill.load_tokenizer("gpt2").fingerprint
    assert base64.b64decode(ours.data.split()[0])
    assert replace(ours, data=None) != tokenmill.load_tokenizer("gpt2")


def test_the_files_are_kept_under_their_hash(tmp_path, bpe):
    tokenmill.load_tokenizer(bpe)
    tokenmill.load_tokenizer(bpe)

    (file,) = (tmp_path / "cache" / "tokenmill" / "tokenizers").rglob("tokenizer.json")
    assert file.read_text() == bpe.to_str(pretty=True)
