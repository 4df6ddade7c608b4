"""SentencePiece's BPE, in its own files and in others: on gigatoken wherever ids are equal."""

import copy
import io
import json

import pytest
import sentencepiece
import tokenizers
from gigatoken import gigatoken_rs
from gigatoken._load.sentencepiece import sentencepiece_to_tokenizer_json
from hypothesis import given, settings
from tokens.texts import TEXTS

from tokenmill.errors import BadInputError, FormatError
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.same_ids import probes

CORPUS = [text.decode() for text in probes()[:13]] * 20
PREPEND = {"type": "Prepend", "prepend": "\u2581"}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
MERGED = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"}
MILL = {"id": 900, "content": "<mill>", "special": False, "normalized": False}
WHOLE = {"single_word": False, "lstrip": False, "rstrip": False}

AS_IT_IS = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}


def metaspace(scheme, split):
    kind = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}
    return {"normalizer": None, "pre_tokenizer": kind}


def train(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter("\n".join(CORPUS).split("\n")), model_writer=model, vocab_size=900,
        hard_vocab_limit=False, character_coverage=0.98, max_sentence_length=20000, minloglevel=2,
        **{"model_type": "bpe", "byte_fallback": True, **options},
    )  # fmt: skip
    return model.getvalue()


@pytest.fixture(scope="module")
def plain():
    """A model that keeps its text as it is, as that of Llama 2."""
    return train(**AS_IT_IS)


@pytest.fixture(scope="module")
def tree(plain):
    return json.loads(sentencepiece_to_tokenizer_json(plain))


@pytest.fixture
def load_tree(tmp_path, tree):
    def load_with(model=None, **parts):
        changed = {**copy.deepcopy(tree), **parts}
        changed["model"].update(model or {})
        (tmp_path / "tokenizer.json").write_text(json.dumps(changed))
        return load(str(tmp_path / "tokenizer.json"), end_of_text="</s>")

    return load_with


def ids_of_tokenizers(tokenizer):
    package = tokenizers.Tokenizer.from_str(tokenizer.content)
    package.encode_special_tokens = True
    return lambda text: package.encode(text, add_special_tokens=False).ids


FORMS = {
    "Llama 2": {
        "normalizer": {"type": "Sequence", "normalizers": [PREPEND, REPLACE]},
        "pre_tokenizer": None,
    },
    "Mistral": metaspace("first", False),
    "prefix always": metaspace("always", True),
    "no prefix": metaspace("never", True),
    "Gemma": {"normalizer": REPLACE, "pre_tokenizer": {**MERGED, "invert": False}},
    "added token": {"added_tokens": [{**MILL, **WHOLE}, {"id": 2, "content": "</s>", **WHOLE,
                                     "special": True, "normalized": False}]},
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_published_forms_run_on_gigatoken_with_the_ids_of_tokenizers(load_tree, name):
    tokenizer = load_tree(**FORMS[name])
    encode = ids_of_tokenizers(tokenizer)

    @settings(max_examples=150, deadline=None)
    @given(text=TEXTS)
    def same_ids(text):
        text = text.replace("-", "<mill>")
        assert tokenizer.encode(text).tolist() == encode(text)

    assert (tokenizer.backend, tokenizer.cuts) == ("gigatoken", None)
    same_ids()


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, PREPEND, REPLACE]}},
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {**MERGED, "behavior": "Isolated", "invert": False}},
        {"pre_tokenizer": {"type": "Digits", "individual_digits": True}},
        {"model": {"end_of_word_suffix": "</w>"}},
        {"added_tokens": [{**MILL, **WHOLE, "single_word": True}, *[
            {"id": 2, "content": "</s>", **WHOLE, "special": True, "normalized": False}]]},
    ],
)  # fmt: skip
def test_other_forms_are_left_to_tokenizers(load_tree, parts):
    tokenizer = load_tree(**parts)
    encode = ids_of_tokenizers(tokenizer)

    assert tokenizer.backend == "tokenizers"
    for text in ["x <mill>y a<mill>", "The Mill 123 ﬁ"]:
        assert tokenizer.encode(text).tolist() == encode(text)


def test_a_missing_byte_is_left_to_tokenizers(load_tree, tree):
    vocab = {piece: number for piece, number in tree["model"]["vocab"].items() if piece != "<0xF0>"}

    assert load_tree({"vocab": vocab}).backend == "tokenizers"


@pytest.mark.parametrize(
    "options",
    [
        {"split_digits": True},
        {"add_dummy_prefix": False},
        {"add_dummy_prefix": False, "user_defined_symbols": ["<mill>", "\n\n"]},
        {"control_symbols": ["<ctl>"], "allow_whitespace_only_pieces": True},
    ],
)
def test_models_run_on_gigatoken_with_the_ids_of_sentencepiece(tmp_path, options):
    (tmp_path / "a.model").write_bytes(train(**AS_IT_IS, **options))
    package = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "a.model"))
    tokenizer = load(str(tmp_path / "a.model"))

    @settings(max_examples=150, deadline=None)
    @given(text=TEXTS)
    def same_ids(text):
        text = text.replace("-", "<mill>").replace("_", "<ctl></s>")
        assert tokenizer.encode(text).tolist() == package.encode(text)

    assert (tokenizer.backend, tokenizer.cuts) == ("gigatoken", None)
    same_ids()


@pytest.mark.parametrize(
    "options",
    [
        {"model_type": "unigram", "byte_fallback": True},
        {"byte_fallback": False},
        {**AS_IT_IS, "treat_whitespace_as_suffix": True},
        # gigatoken composes other characters, strips more than spaces, and puts no space before a
        # symbol: each is seen in the probes.
        {"normalization_rule_name": "nmt_nfkc"},
        {"normalization_rule_name": "identity"},
        {**AS_IT_IS, "user_defined_symbols": ["<mill>"]},
    ],
)
def test_other_models_are_left_to_sentencepiece(tmp_path, options):
    (tmp_path / "a.model").write_bytes(train(**options))
    package = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "a.model"))

    tokenizer = load(str(tmp_path / "a.model"))

    assert tokenizer.backend == "sentencepiece"
    for text in (CORPUS[0], "\u1e9b\u0323", "\n", "<mill>"):
        assert tokenizer.encode(text).tolist() == package.encode(text)


def test_a_text_that_is_not_utf8_is_refused_before_gigatoken_sees_it(tmp_path, plain):
    (tmp_path / "a.model").write_bytes(plain)

    with pytest.raises(BadInputError, match="text 1 is not UTF-8 at byte 1"):
        load(str(tmp_path / "a.model")).encode_batch([b"a", b"a\xe6\xb0"])


def test_a_model_with_a_piece_that_is_no_text_is_refused(tmp_path, plain):
    """sentencepiece reads it, and fails when the piece is asked for."""
    piece = b"<0xF0>"
    (tmp_path / "a.model").write_bytes(plain.replace(piece, b"<0x\xff0>"))

    with pytest.raises(FormatError, match="is not a SentencePiece model: 'utf-8' codec"):
        load(str(tmp_path / "a.model"))


def test_a_gigatoken_that_forgets_a_merge_is_ruled_out(load_tree, monkeypatch):
    """The spellings of the vocabulary show it, wherever it is."""
    load_json = gigatoken_rs.load_hf_json

    def load_without(content):
        changed = json.loads(content)
        changed["model"]["merges"].pop()
        return load_json(json.dumps(changed))

    monkeypatch.setattr(gigatoken_rs, "load_hf_json", load_without)

    assert load_tree(**FORMS["Gemma"]).backend == "tokenizers"


def test_a_merge_that_is_there_twice_has_its_last_place(load_tree, tree):
    """For `tokenizers`; gigatoken takes the first one."""
    merges = [*tree["model"]["merges"], tree["model"]["merges"][0]]

    assert load_tree({"merges": merges}).backend == "tokenizers"
