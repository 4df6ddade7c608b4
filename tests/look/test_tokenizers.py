"""`tokenizer show` and `compare`: every number against tiktoken, or counted by hand."""

import json
import re
import unicodedata
from collections import Counter

import pytest
import tiktoken
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from special_tokens import write_tokenizer

from tokenmill.base.human import human_bytes
from tokenmill.cli import tokenmill
from tokenmill.errors import BadInputError, PrepareError
from tokenmill.look.text_scripts import HAN, NO_SCRIPT, cut_by_script
from tokenmill.look.tokenizers import compare_tokenizers, facts_of
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.tiktoken_file import bundled_gpt2, parse_ranks

ENGLISH = "The mill grinds 12 sacks, a day. It's old!\n"
RUSSIAN = "\u0412\u043e\u0434\u0430 \u0442\u0435\u0447\u0451\u0442, 7 \u0434\u043d\u0435\u0439.\n"
JAPANESE = "\u6c34\u8eca\u3067\u7c89\u3092\u3072\u304f\u3002\n"
MIXED = st.text("ab \u0434\u6c34\u306719,.\n\u0301\U0001f33e\u0915\u094d", max_size=30)


@pytest.fixture(scope="module")
def gpt2():
    ranks = {token: rank for rank, token in parse_ranks(bundled_gpt2(), "gpt2").items()}
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


@pytest.fixture
def texts(tmp_path):
    """A file of each of three scripts, and a tokenizer of nothing but bytes."""
    for name, text in (("en", ENGLISH), ("ru", RUSSIAN), ("ja", JAPANESE)):
        (tmp_path / f"{name}.txt").write_text(text * 50, "utf-8")
    return tmp_path


@settings(max_examples=300, deadline=None)
@given(st.lists(MIXED, max_size=4))
def test_texts_are_cut_only_where_the_script_changes(texts):
    for text in texts:
        pieces = list(cut_by_script(text.encode()))

        assert b"".join(piece.text for piece in pieces) == text.encode()
        assert all(piece.text for piece in pieces)
        for piece in pieces:
            scripts = {name for c in piece.text.decode() if (name := plain_script(c))}
            assert scripts == ({piece.script} if piece.script != NO_SCRIPT else set())
        assert len(pieces) == (max(1, len(changes(text))) if text else 0)


def words_by_script(*texts):
    words = Counter()
    for text in texts:
        for piece in cut_by_script(text.encode()):
            words[piece.script] += piece.num_words
    return words


def changes(text):
    """The scripts of a text in turn, each once in a row."""
    scripts = [name for c in text if (name := plain_script(c))]
    return [name for at, name in enumerate(scripts) if at == 0 or scripts[at - 1] != name]


def plain_script(c):
    if unicodedata.category(c) == "So":
        return "Emoji"
    first = unicodedata.name(c, "").split(" ")[0]
    known = {"LATIN": "Latin", "CYRILLIC": "Cyrillic", "DEVANAGARI": "Devanagari"}
    return known.get(first) or (HAN if first in ("CJK", "HIRAGANA") else None)


def test_words_are_runs_of_letters_or_characters_where_no_spaces_are_written():
    assert words_by_script(ENGLISH, RUSSIAN, JAPANESE, " 5 5.") == {
        "Latin": 10,  # The mill grinds 12 sacks a day It s old
        "Cyrillic": 4,
        HAN: 7,
        NO_SCRIPT: 2,
    }


def test_marks_are_no_words_and_every_emoji_is_one():
    thai = "\u0e01\u0e34\u0e48\u0e07 \u0e17\u0e35\u0e48"  # 3 letters, 4 marks
    farmer, heart, flag = "\U0001f468\u200d\U0001f33e", "\u2764\ufe0f", "\U0001f1e9\U0001f1ea"
    found = words_by_script(thai, farmer, heart, flag, "1\u00ba")

    assert found == {"Thai": 3, "Emoji": 2 + 1 + 2, "Latin": 1}


def test_a_space_before_a_word_goes_with_the_word():
    found = cut_by_script("mill \u0434\u0430, ok".encode())

    assert [piece.text.decode() for piece in found] == ["mill", " \u0434\u0430,", " ok"]


def test_figures_are_those_of_tiktoken(texts, gpt2):
    found = compare_tokenizers("gpt2", "bytes", texts)

    whole = [(texts / f"{name}.txt").read_text("utf-8") for name in ("en", "ja", "ru")]
    ids = [gpt2.encode_ordinary(text) for text in whole]
    num_bytes = sum(len(text.encode()) for text in whole)
    ours, plain = found.tokenizers
    assert (found.files, found.documents, found.text_bytes) == (3, 3, num_bytes)
    assert ours.tokens == sum(map(len, ids))
    assert plain.tokens == num_bytes
    assert ours.bytes_per_token == num_bytes / ours.tokens
    assert ours.used_ids == len(set().union(*ids))
    assert found.words == 50 * (10 + 7 + 4)
    by_script = {figures.script: figures for figures in found.scripts}
    for script, tokens, words in (("Latin", ids[0], 10), (HAN, ids[1], 7), ("Cyrillic", ids[2], 4)):
        assert by_script[script].tokens[0] == len(tokens)
        assert by_script[script].fertility[0] == len(tokens) / (50 * words)
    assert found.shared_tokens == 256
    assert all(one.bytes_per_second > 0 for one in found.tokenizers)


def test_a_sample_of_a_large_input_has_about_its_size_and_all_files(texts):
    (texts / "big.txt").write_text("\n".join(f"line {n} of many" for n in range(300_000)), "utf-8")

    found = compare_tokenizers("gpt2", "bytes", texts, sample=1 << 20)

    assert 1 << 19 < found.text_bytes < 1 << 21
    assert {"Latin", "Cyrillic", HAN} <= {figures.script for figures in found.scripts}


def test_an_input_as_small_as_the_sample_is_read_whole_whatever_its_lines(texts):
    lines = [RUSSIAN.strip() * count for count in (10, 30_000, 20, 500)]
    (texts / "long.txt").write_text("\n".join(lines), "utf-8")
    size = sum(path.stat().st_size for path in texts.glob("*.txt"))

    found = compare_tokenizers("gpt2", "bytes", texts, sample=size)

    assert found.text_bytes == found.bytes_in == size


def test_a_sample_of_one_file_is_of_a_few_places(tmp_path):
    """A part of 256 KiB for each letter: two of them are half a megabyte."""
    parts = (((letter * 31 + "\n") * 8192).encode() for letter in "abcdefgh")
    (tmp_path / "a.txt").write_bytes(b"".join(parts))

    one, _ = compare_tokenizers("bytes", "gpt2", tmp_path / "a.txt", sample=512 << 10).tokenizers

    assert one.used_ids <= 5  # a place may be across two parts; and the newline


def test_mistakes_are_named(texts):
    (texts / "empty.txt").write_text("")
    with pytest.raises(BadInputError, match="no text"):
        compare_tokenizers("gpt2", "bytes", texts / "empty.txt")
    with pytest.raises(ValueError, match="no tokenizer 'gpt3'"):
        compare_tokenizers("gpt2", "gpt3", texts)
    with pytest.raises(ValueError, match="sample is 0"):
        compare_tokenizers("gpt2", "bytes", texts, sample=0)
    with pytest.raises(PrepareError, match=r"nowhere\.txt"):
        compare_tokenizers("gpt2", "bytes", texts / "nowhere.txt")


def test_facts_of_the_families(tmp_path):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    byte_tokens = {f"<0x{byte:02X}>": byte for byte in range(256)}
    spaced = Tokenizer(
        models.BPE({**byte_tokens, "a": 256, "\u2581": 257}, [], byte_fallback=True, fuse_unk=True)
    )
    spaced.normalizer = normalizers.Replace(" ", "\u2581")
    spaced.decoder = decoders.ByteFallback()
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, False))
    pieces = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Split("-", "removed")
    found = {}
    for name, made in (("spaced", spaced), ("unigram", unigram), ("pieces", pieces)):
        made.add_special_tokens(["</s>"])
        made.save(str(tmp_path / f"{name}.json"))
        found[name] = facts_of(load(str(tmp_path / f"{name}.json")))

    assert "byte fallback" in found["spaced"].family
    assert found["unigram"].family == "Unigram"
    assert (found["pieces"].family, found["pieces"].pattern) == ("WordPiece", "-")
    assert found["pieces"].engine == "tokenizers"
    assert found["unigram"].special_ids == {"</s>": 2}
    plain = facts_of(load("bytes"))
    assert (plain.engine, plain.vocab_size, plain.pattern) == ("tokenmill", 257, None)


class TestCommand:
    def run(self, *words):
        result = CliRunner().invoke(tokenmill, ["tokenizer", *map(str, words)])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def test_show(self):
        lines = dict(line.split(maxsplit=1) for line in self.run("show", "gpt2").splitlines())

        assert lines["ids"].startswith("50,257;")
        assert lines["engine"] == "gigatoken"
        assert lines["pattern"] == "gpt2"
        assert lines["special"] == "ids   <|endoftext|> 50256"
        assert json.loads(self.run("show", "gpt2", "--json"))["end_of_text_id"] == 50256

    def test_compare_prints_and_writes_a_page(self, texts):
        page = texts / "page.html"
        inputs = sorted(texts.glob("*.txt"))

        printed = self.run("compare", "gpt2", "bytes", *inputs, "--html", page)

        found = compare_tokenizers("gpt2", "bytes", texts)
        assert f"{found.tokenizers[0].tokens:,}" in printed
        cyrillic = next(one for one in found.scripts if one.script == "Cyrillic")
        assert re.search(rf"Cyrillic +{cyrillic.fertility[0]:.3f} ", printed)
        html = page.read_text("utf-8")
        assert html.count("<svg") >= 6
        assert f"{found.tokenizers[0].tokens:,}" in html
        bar = r"<th>Cyrillic</th>.*?<td>([\d.]+)</td>.*?<span[^>]*>(.*?)</span>.*?<td>([\d.]+)</td>"
        shown = re.findall(bar, html)  # in both plots
        num_bytes, tokens = cyrillic.text_bytes, cyrillic.tokens
        assert shown == [
            (
                f"{tokens[0] / 200:.2f}",
                f"200 words, {human_bytes(num_bytes)}",
                f"{tokens[1] / 200:.2f}",
            ),
            (
                f"{num_bytes / tokens[0]:.2f}",
                human_bytes(num_bytes),
                f"{num_bytes / tokens[1]:.2f}",
            ),
        ]
        assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", "")
        values = json.loads(self.run("compare", "gpt2", "bytes", *inputs, "--json"))
        assert values["tokenizers"][1]["tokens"] == found.text_bytes

    def test_columns_are_as_wide_as_the_longest_name(self, texts, tmp_path):
        name = tmp_path / "a folder with a name of many words" / "tokenizer.json"
        name.parent.mkdir()
        write_tokenizer(name)

        printed = self.run("compare", "gpt2", name, texts / "ru.txt").splitlines()[2:]

        assert len({len(line) for line in printed}) == 1
        assert printed[0].endswith(f"  {name}")

    def test_a_script_of_a_few_characters_has_no_bars(self, texts):
        (texts / "en.txt").write_text(ENGLISH * 200 + "\u0434", "utf-8")

        self.run("compare", "gpt2", "bytes", texts / "en.txt", "--html", texts / "page.html")

        html = (texts / "page.html").read_text("utf-8")
        assert "<th>Latin</th>" in html
        assert "<th>Cyrillic</th>" not in html
        assert "less than 0.1 % of the text: Cyrillic." in html

    def test_a_text_without_words_has_none(self, texts):
        (texts / "signs.txt").write_text("... !!!")

        printed = self.run("compare", "gpt2", "bytes", texts / "signs.txt")

        assert re.search(r"tokens a word +- +-\n", printed)
