"""gpt2 gives the ids of tiktoken, and keeps doing so across processes, states and renewals."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenmill
from tokenmill.errors import FormatError, TokenizerMismatchError
from tokenmill.tokens import gigatoken, tiktoken_file
from tokenmill.tokens.load_tokenizer import from_state, load

REAL_FILES = sorted(Path(subprocess.__file__).parent.glob("[a-d]*.py"))[:60]
TEXTS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from(" \n\t\r'sStdlve09 \u3000\u00a0\u4e2d\uff0c\u6587e\u0301\U0001f33e"),
    ),
    max_size=60,
)


def run_python(code, **options):
    """Run code in a fresh process that sees the same tokenmill."""
    environment = {**os.environ, "PYTHONPATH": str(Path(tokenmill.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done


@pytest.fixture(scope="module")
def gpt2():
    return load("gpt2")


def texts_of(ids, ends):
    return [part.tolist() for part in np.split(ids, ends[:-1])]


def test_every_file_of_the_standard_library_has_the_ids_of_tiktoken(gpt2, oracle):
    documents = [path.read_bytes() for path in REAL_FILES]

    ids, ends = gpt2.encode_batch(documents)

    assert (ids.dtype, ends.dtype) == (np.uint32, np.int64)
    for document, found in zip(documents, texts_of(ids, ends), strict=True):
        assert found == oracle("gpt2").encode_ordinary(document.decode())


@settings(max_examples=300, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_any_text_has_the_ids_of_tiktoken(gpt2, oracle, texts):
    ids, ends = gpt2.encode_batch([text.encode() for text in texts])

    assert texts_of(ids, ends) == [oracle("gpt2").encode_ordinary(text) for text in texts]


@pytest.mark.parametrize("character", ["a", " ", "=", "\n", "1", "\u6c34", "\x00", "\u0301"])
def test_long_runs_of_one_character_have_the_ids_of_tiktoken(gpt2, oracle, character):
    text = f"x{character * 10_000}y"

    ids, _ = gpt2.encode_batch([text.encode()])

    assert ids.tolist() == oracle("gpt2").encode_ordinary(text)


@pytest.mark.parametrize("pattern", ["cl100k", "o200k"])
def test_a_stated_pattern_splits_as_tiktoken_does(tmp_path, rank_file, oracle, pattern):
    path = tmp_path / "mine.tiktoken"
    path.write_bytes(rank_file)
    tokenizer = load(str(path), pattern=pattern, end_of_text=50256)
    texts = [file.read_text() for file in REAL_FILES[:20]] + ["DON'T we'LL 12345\r\n\r\n  x/\n/y"]

    ids, ends = tokenizer.encode_batch([text.encode() for text in texts])

    assert texts_of(ids, ends) == [oracle(pattern).encode_ordinary(text) for text in texts]


def test_a_literal_end_of_text_stays_text(gpt2):
    ids, _ = gpt2.encode_batch([b"a<|endoftext|>b"])

    assert (gpt2.end_of_text, gpt2.end_of_text_id) == ("<|endoftext|>", 50256)
    assert 50256 not in ids
    assert gpt2.decode(ids) == b"a<|endoftext|>b"


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_decoding_gives_the_bytes_back(gpt2, text):
    ids, _ = gpt2.encode_batch([text.encode()])

    assert gpt2.decode(ids.astype(np.uint16)) == text.encode()


def test_every_id_decodes_as_tiktoken_decodes_it(gpt2, oracle):
    every = np.arange(50257)

    assert gpt2.decode(every) == oracle("gpt2").decode_bytes(every.tolist())


@pytest.mark.parametrize("bad", [50257, -1, 2**40])
def test_an_id_outside_the_vocabulary_is_named(gpt2, bad):
    with pytest.raises(ValueError, match=f"id {bad} at position 1 .* gpt2"):
        gpt2.decode(np.array([0, bad]))


def test_no_texts_and_empty_texts_give_no_ids(gpt2):
    assert [part.tolist() for part in gpt2.encode_batch([])] == [[], []]
    assert [part.tolist() for part in gpt2.encode_batch([b"", b"a", b""])] == [[64], [0, 1, 1]]


def test_the_fingerprint_of_gpt2_is_frozen():
    """Another value would make every dataset on disk look like one of another tokenizer."""
    assert load("gpt2").fingerprint == "0535bd0bd9170bb53321b65a1c3f17ba"
    assert load("r50k_base").fingerprint == load("gpt2").fingerprint
    assert (load("gpt2").vocab_size, load("r50k_base").name) == (50257, "r50k_base")


def test_the_fingerprint_is_that_of_the_vocabulary_tiktoken_has(oracle):
    from tokenmill.tokens.vocabulary import PROBE, fingerprint

    tiktoken = oracle("gpt2")
    vocabulary = {i: tiktoken.decode_single_token_bytes(i) for i in range(50257)}
    ids = np.array(tiktoken.encode_ordinary(PROBE.decode()), np.uint32)

    assert load("gpt2").fingerprint == fingerprint(vocabulary, ids)


def test_the_state_is_small_and_gives_the_same_tokenizer():
    tokenizer = load("gpt2")
    text = REAL_FILES[0].read_bytes()

    again = from_state(tokenizer.state())

    assert len(repr(tokenizer.state())) < 300
    assert again.encode_batch([text])[0].tolist() == tokenizer.encode_batch([text])[0].tolist()


def test_a_state_with_another_fingerprint_is_refused():
    with pytest.raises(TokenizerMismatchError, match=r"0{32}"):
        from_state({**load("gpt2").state(), "fingerprint": "0" * 32})


def test_it_travels_to_another_process_without_its_encoder():
    tokenizer = load("gpt2")
    expected = tokenizer.encode_batch([b"the mill"])[0].tolist()
    code = (
        "import pickle, sys; t = pickle.load(sys.stdin.buffer);"
        "print(t.encode_batch([b'the mill'])[0].tolist())"
    )

    pickled = pickle.dumps(tokenizer)
    out = run_python(code, input=pickled)

    assert len(pickled) < 1000
    assert out.stdout.decode().strip() == str(expected)


def test_a_renewed_encoder_gives_the_same_ids(monkeypatch, oracle):
    monkeypatch.setattr(gigatoken, "LOOK_EVERY", 1000)
    monkeypatch.setattr(gigatoken, "GROWTH_LIMIT", -1)
    built = []
    encoder = gigatoken.Encoder(lambda: built.append(1) or tiktoken_file._build(None, "gpt2"))
    text = REAL_FILES[0].read_text()[:900]

    for _ in range(4):
        ids, _ends = encoder.encode_batch([text.encode()])
        assert ids.tolist() == oracle("gpt2").encode_ordinary(text)

    assert len(built) == 2


def test_memory_stays_bounded_when_every_word_is_new():
    """Random letters fill gigatoken's cache fastest: unbounded, this text takes 130 MB."""
    code = """if True:
        import numpy as np
        from tokenmill.tokens import gigatoken
        from tokenmill.tokens.load_tokenizer import load
        gigatoken.GROWTH_LIMIT = 24 << 20
        gigatoken.LOOK_EVERY = 4 << 20
        random, tokenizer, peak = np.random.default_rng(0), load("gpt2"), 0
        tokenizer.encode_batch([b"warm"])
        start = gigatoken.process_bytes(resident=True)
        for _ in range(24):
            letters = random.integers(97, 123, 1 << 20, dtype=np.uint8)
            letters[random.integers(0, 1 << 20, 150_000)] = 32
            tokenizer.encode_batch([letters.tobytes()])
            peak = max(peak, gigatoken.process_bytes(resident=True) - start)
        print(peak >> 20)
    """
    out = run_python(code)

    assert int(out.stdout) < 100


def test_a_damaged_bundled_file_is_refused(tmp_path, monkeypatch, rank_file):
    damaged = tmp_path / "gpt2.tiktoken"
    damaged.write_bytes(rank_file[:-1] + b"7")
    monkeypatch.setattr(tiktoken_file, "BUNDLED", damaged)

    with pytest.raises(FormatError, match="is damaged"):
        load("gpt2").encode_batch([b"text"])


def test_singly_or_many_at_once_the_ids_are_the_same(monkeypatch):
    texts = [b"", b"one", b"some more words\n\n", "ünïcode \U0001f600".encode(), b" ", b"one"] * 3
    encoder = gigatoken.Encoder(lambda: tiktoken_file._build(None, "gpt2"))
    singly = encoder.encode_batch(texts)
    monkeypatch.setattr(gigatoken, "SINGLY", 0)

    ids, ends = encoder.encode_batch(texts)

    assert ids.tolist() == singly[0].tolist()
    assert ends.tolist() == singly[1].tolist()
