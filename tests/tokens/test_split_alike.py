"""Characters that gigatoken has and the packages do not have yet: ids are those of the packages."""

import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import tiktoken
import tokenizers
from gigatoken.gigatoken_rs import BPETokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from special_tokens import write_tokenizer
from tokenizers import pre_tokenizers

from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.split_alike import one_of_characters, runs_of
from tokenmill.tokens.split_patterns import ONE_EXPRESSION, PATTERNS

LETTERS, SIGNS, JOINED = map(runs_of, ("letters", "signs", "joined"))


def listed(runs):
    for run in runs.split():
        points = [int(point, 16) for point in run.split("-")]
        yield from map(chr, range(points[0], points[-1] + 1))


NEWER = [*listed(LETTERS), *listed(SIGNS)]
AROUND = ["a{0}a", "A{0}A 1{0}1", "!{0}!", " {0} b{0}{0}\n\n", "'{0} \u0301{0}b\u3042{0}"]
# A pattern of each kind: letters and numbers; their cases, and marks; signs.
KINDS = ["gpt2", "o200k", "deepseek3"]


@pytest.fixture(scope="module")
def pairs_of_bytes(tmp_path_factory):
    """A rank file in which any two bytes that are in one piece may become one token."""
    import base64

    tokens = [bytes([a]) for a in range(256)]
    tokens += [bytes([a, b]) for a in range(256) for b in range(256)]
    path = tmp_path_factory.mktemp("ranks") / "pairs.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % n for n, t in enumerate(tokens)))
    return path, {token: number for number, token in enumerate(tokens)}


@pytest.fixture(scope="module")
def both(pairs_of_bytes):
    """both("gpt2") -> our tokenizer and tiktoken's, with that pattern."""
    path, ranks = pairs_of_bytes

    def load_both(name):
        theirs = tiktoken.Encoding(
            name, pat_str=ONE_EXPRESSION[name], mergeable_ranks=ranks, special_tokens={}
        )
        return load(str(path), pattern=name, end_of_text=len(ranks)), theirs

    return load_both


@pytest.mark.parametrize("name", PATTERNS)
def test_texts_with_newer_characters_get_the_ids_of_tiktoken(both, name):
    ours, theirs = both(name)
    texts = ["".join(shape.format(c) for shape in AROUND) for c in [*NEWER, "a", "\u6c34"]]

    ids, ends = ours.encode_batch([text.encode() for text in texts])

    assert ours.backend == "gigatoken"
    expected = theirs.encode_ordinary_batch(texts, num_threads=1)
    assert ids.tolist() == [number for one in expected for number in one]
    assert ends.tolist() == np.cumsum([len(one) for one in expected]).tolist()


@pytest.mark.parametrize("name", KINDS)
def test_every_other_character_is_split_alike(pairs_of_bytes, both, name):
    """So the list is complete. Of the planes that have no characters, every 97th."""
    path, _ = pairs_of_bytes
    newer = set(NEWER if name == "deepseek3" else listed(LETTERS))
    points = [*range(0xD800), *range(0xE000, 0x34000), *range(0x34000, 0x110000, 97)]
    characters = [chr(p) for p in points if chr(p) not in newer]
    texts = [
        "".join(shape.format(c) for c in characters[n : n + 500] for shape in AROUND[:4])
        for n in range(0, len(characters), 500)
    ]
    gigatoken = BPETokenizer.from_tiktoken(str(path), PATTERNS[name].scheme)
    _, theirs = both(name)

    different = [
        f"U+{ord(text[1]):04X} and after"
        for text in texts
        if gigatoken.encode(text.encode()).tolist() != theirs.encode_ordinary(text)
    ]
    assert different == []


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from([*NEWER[::97], *"aZ1 \n.\u0905\uac00\u6c34\U0001f33e\u0c5d"])))
def test_they_are_found(text):
    for runs in (LETTERS, f"{LETTERS} {SIGNS}", f"{LETTERS}  {JOINED}"):
        assert one_of_characters(runs)(text.encode()) == bool(set(listed(runs)) & set(text))


def test_they_are_found_anywhere_in_a_long_text():
    has_newer = one_of_characters(LETTERS)
    for size in range((1 << 18) - 6, (1 << 18) + 2):
        text = b"a" * size + "\U000323b0".encode()
        assert has_newer(text + b"a" * 1000)
        assert has_newer(text)
        assert not has_newer(text[:-1])


def test_a_text_among_others_has_the_ids_of_tiktoken(oracle):
    line = "The mill grinds \u6c34 and 1,234 sacks; isn't that enough? "
    text = line * 800 + "a\U000323b0\U000323b1!b 1 " + line * 300

    ids, ends = load("gpt2").encode_batch([b"x", text.encode(), b"y y"])

    encode = oracle("gpt2").encode_ordinary
    assert ids.tolist() == [*encode("x"), *encode(text), *encode("y y")]
    assert np.diff(ends).tolist() == [len(encode(text)), len(encode("y y"))]


@pytest.mark.parametrize("name", ["gpt2", "qwen2", "deepseek3", "nanochat"])
def test_a_tokenizer_json_gives_the_ids_of_tokenizers(tmp_path, train_bpe, name):
    steps = [
        pre_tokenizers.Split(tokenizers.Regex(r), "isolated") for r in PATTERNS[name].splits[0]
    ]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    texts = ["".join(shape.format(c) for shape in AROUND) for c in NEWER[::7]]
    reference = train_bpe("".join(texts), 500, pre_tokenizer=pre_tokenizers.Sequence(steps))
    reference.save(str(tmp_path / "tokenizer.json"))

    tokenizer = load(str(tmp_path / "tokenizer.json"))
    ids, _ = tokenizer.encode_batch([text.encode() for text in texts])

    assert tokenizer.backend == "gigatoken"
    assert ids.tolist() == [i for one in reference.encode_batch(texts) for i in one.ids]


# One mark of each class that NFC orders, as unicodedata has them.
OF_EACH_CLASS = {
    unicodedata.combining(chr(point)): chr(point)
    for point in range(0x10FFFF, 0, -1)
    if unicodedata.combining(chr(point))
}


@pytest.fixture(scope="module")
def normalizing(tmp_path_factory):
    """A tokenizer.json of single bytes, of the NFC of a text."""
    path = tmp_path_factory.mktemp("nfc") / "tokenizer.json"
    write_tokenizer(path)
    package = tokenizers.Tokenizer.from_file(str(path))
    package.normalizer = tokenizers.normalizers.NFC()
    package.save(str(path))
    return load(str(path))


def assert_composed_alike(tokenizer, texts):
    """Those with a listed character apart from the others, so that gigatoken gets all others."""
    assert tokenizer.backend == "gigatoken"
    composed = tokenizers.normalizers.NFC().normalize_str
    has_none = set(listed(f"{LETTERS} {JOINED}")).isdisjoint
    for kind in (True, False):
        text = "\n".join(text for text in texts if has_none(text) is kind)
        ids, _ = tokenizer.encode_batch([text.encode()])
        found, expected = ids.astype(np.uint8).tobytes().decode(), composed(text)
        if found != expected:
            lines = zip(*(one.split("\n") for one in (text, found, expected)), strict=True)
            different = [line for line, one, other in lines if one != other]
            pytest.fail(f"{[text.encode('unicode-escape') for text in different[:9]]}")


def test_every_mark_is_ordered_as_the_package_does(normalizing):
    """Next to a mark of each class; and every other character, whether it is a mark to NFC."""
    low, high, classes = OF_EACH_CLASS[1], OF_EACH_CLASS[240], OF_EACH_CLASS.values()
    some = [chr(p) for p in range(0x21, 0x30000) if not 0xD800 <= p < 0xE000]
    marks = [c for c in some if unicodedata.category(c)[0] == "M"]
    marks += [c for c in (*listed(JOINED), *listed(LETTERS)) if ord(c) < 0x20000]

    assert len(classes) > 50
    assert_composed_alike(normalizing, [f"a{c}{low}e{high}{c}" for c in some if c.strip()])
    around = ["".join(f"a{c}{mark}A{mark}{c}" for mark in classes) for c in dict.fromkeys(marks)]
    assert_composed_alike(normalizing, around)


def test_every_character_is_composed_as_the_package_does(normalizing):
    """Each one, what it is decomposed into, and that with marks between and after."""
    characters = [c for c in map(chr, range(0x110000)) if unicodedata.decomposition(c)]
    characters = [c for c in characters if unicodedata.normalize("NFD", c) != c]
    characters += map(chr, range(0xAC00, 0xD7A4))
    assert len(characters) > 2000 + 11172

    texts = []
    for c in dict.fromkeys(characters):
        apart = unicodedata.normalize("NFD", c)
        parts = [f"{apart[:1]}{mark}{apart[1:]}{mark}" for mark in "\u0323\u0301\u0327\u3099"]
        texts.append(f"{c}{apart} x{c}\u0323{apart}\u0344 {''.join(parts)}{c}{c}")
    assert_composed_alike(normalizing, texts)


# All that Unicode 10 to 17 join, by the blocks of these letters: Unicode 13, and 16.
JOINED_PAIRS = """
11935 11930, 105d2 307, 105da 307, 11382 113c9, 11384 113bb, 1138b 113c2, 11390 113c9, 113c2 113b8,
113c2 113c2, 113c2 113c9, 1611e 1611e, 1611e 1611f, 1611e 16120, 1611e 16129, 16121 1611f,
16121 16120, 16122 1611f, 16129 1611f, 16d63 16d67, 16d67 16d67, 16d69 16d67
"""


def test_letters_that_newer_versions_join_are_left_apart(normalizing):
    pairs = ["".join(listed(pair)) for pair in JOINED_PAIRS.split(",")]

    assert_composed_alike(normalizing, [*pairs, *(one + other for one in pairs for other in pairs)])


WITHOUT_TIKTOKEN = """
import sys
sys.modules["tiktoken"] = None
from tokenmill.tokens.load_tokenizer import load
gpt2 = load("gpt2")
assert gpt2.encode("plain \\u6c34 text").size
gpt2.encode("a new letter: \\U000323b0")
"""


def test_without_tiktoken_such_a_text_is_refused():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TIKTOKEN], capture_output=True, text=True)

    assert "a text with characters of Unicode 17 needs the package tiktoken" in done.stderr
