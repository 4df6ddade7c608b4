"""Training a tokenizer: the merges of a plain trainer, whoever counts, and however a run ends."""

import json
import os
import pydoc_data.topics
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial

import flat
import numpy as np
import pytest
import regex
import tiktoken
from preparation.oracle import SOURCE, expected, hashes_of_files, read_dataset
from tokens.patterns import PATTERNS, words_of
from tokens.plain_bpe import plain_merges, tokens_of

import tokenmill
from tokenmill.base.progress import Progress
from tokenmill.errors import BadInputError, FormatError, LockedError, SettingsMismatchError
from tokenmill.preparation.count_words import (
    BYTES_PER_SYMBOL,
    choose_words,
    read_words,
    write_words,
)
from tokenmill.preparation.planning.limits import PER_DRIVER
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.split_patterns import ONE_EXPRESSION
from tokenmill.tokens.tiktoken_file import parse_ranks
from tokenmill.tokens.vocabulary import PROBE

MANUAL = list(pydoc_data.topics.topics.values())
OWN = r"\p{L}+[ ]?|\p{N}|\s+|[^\p{L}\p{N}\s]"  # nobody's: a space is at the end of a word
FILES = ["tokenizer.json", "tokenizer.tiktoken", "training.json"]
REPEATED = "This line is in several documents.\n"
DOCUMENTS = [REPEATED + text for text in MANUAL[:25]] + [MANUAL[3], MANUAL[3], "", " \n"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Documents as JSON lines in two files; some lines and some documents are there twice."""
    folder = tmp_path_factory.mktemp("rows")
    for name, part in (("a.jsonl", DOCUMENTS[:15]), ("b.jsonl", DOCUMENTS[15:])):
        lines = (json.dumps({"text": text}) + "\n" for text in part)
        (folder / name).write_text("".join(lines), "utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(rows, tmp_path_factory):
    """A run that nobody disturbed, on one worker."""
    out = tmp_path_factory.mktemp("trained") / "tok"
    flat.train_tokenizer(rows, out, vocab_size=600, workers=1, unit_bytes=8000)
    return out


def tokens_in(folder):
    return parse_ranks((folder / "tokenizer.tiktoken").read_bytes(), "test")


@pytest.mark.parametrize("pattern", [*ONE_EXPRESSION, OWN])
def test_merges_are_those_of_a_plain_trainer_for_every_pattern(tmp_path, pattern):
    """Of one text that is larger than a unit, so that it is cut where the pattern allows it."""
    text = PROBE.decode() * 30 + "\n".join(MANUAL[:4])
    (tmp_path / "a.txt").write_text(text, "utf-8", newline="")
    as_it_is = {"clean": False, "dedup": "none", "unit_bytes": 4000}

    flat.train_tokenizer(
        tmp_path / "a.txt", tmp_path / "tok", vocab_size=290, pattern=pattern, **as_it_is
    )

    split = regex.compile(OWN).findall if pattern == OWN else partial(words_of, pattern)
    words = Counter(word.encode() for word in split(text))
    assert list(tokens_in(tmp_path / "tok").values()) == tokens_of(plain_merges(words, 33))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"(\p{L}+", "regex cannot use the pattern"),
        (r"\s+$|\S+|\s", "in another for tokenizers"),
        (r"\p{N}{1,3}+|[^\p{N}]", "in another for tokenizers"),
    ],
)
def test_a_pattern_that_means_several_things_is_refused(rows, tmp_path, pattern, message):
    with pytest.raises(FormatError, match=message):
        flat.train_tokenizer(rows, tmp_path / "tok", pattern=pattern)
    assert not (tmp_path / "tok").exists()


def test_a_pattern_that_leaves_text_out_is_refused(rows, tmp_path):
    with pytest.raises(BadInputError, match=r"matches \d+ of the \d+ characters of a text"):
        flat.train_tokenizer(rows, tmp_path / "tok", pattern=r"\p{L}+| ")
    assert not (tmp_path / "tok").exists()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("dedup", ["lines", "documents", "none"])
def test_merges_are_those_of_a_plain_trainer_on_the_same_documents(rows, tmp_path, clean, dedup):
    done = flat.train_tokenizer(
        rows, tmp_path / "tok", vocab_size=280, clean=clean, dedup=dedup, unit_bytes=8000
    )

    kept = expected(
        DOCUMENTS,
        lambda text: list(text.encode()),
        256,
        val_fraction=0,
        clean=clean,
        dedup=dedup,
    )[0]["train"]
    texts = [bytes(ids[:-1]).decode() for ids in kept]
    split = regex.compile(PATTERNS["gpt2"])
    words = Counter(word.encode() for text in texts for word in split.findall(text))
    assert (done.documents, done.text_bytes) == (len(texts), sum(len(t.encode()) for t in texts))
    assert (done.words, done.left_out_words, done.least_count) == (len(words), 0, 1)
    assert list(tokens_in(tmp_path / "tok").values()) == tokens_of(plain_merges(words, 23))


@pytest.mark.parametrize(("workers", "unit_bytes"), [(4, 8000), (1, 3000), (2, 1 << 20)])
def test_any_number_of_workers_and_any_units_give_the_same_files(
    rows, trained, tmp_path, workers, unit_bytes
):
    flat.train_tokenizer(
        rows, tmp_path / "tok", vocab_size=600, workers=workers, unit_bytes=unit_bytes
    )

    assert hashes_of_files(tmp_path / "tok") == hashes_of_files(trained)
    assert sorted(hashes_of_files(trained)) == FILES


def test_a_document_larger_than_a_unit_is_counted_whole(tmp_path):
    text = "\n".join(MANUAL[:20])
    (tmp_path / "one.txt").write_text(text, "utf-8")
    settings = {"clean": False, "dedup": "none", "vocab_size": 290}

    flat.train_tokenizer(
        tmp_path / "one.txt", tmp_path / "tok", unit_bytes=5000, long_line=2000, **settings
    )

    words = Counter(word.encode() for word in regex.findall(PATTERNS["gpt2"], text))
    assert list(tokens_in(tmp_path / "tok").values()) == tokens_of(plain_merges(words, 33))


@pytest.mark.parametrize(
    ("stage", "number"),
    [("encode", 3), ("words", 1), ("add-words", 1), ("merges", 9)],
)
def test_killed_and_started_again(rows, trained, tmp_path, stage, number):
    out = tmp_path / "tok"
    code = f"""if True:
        import os, signal, tokenmill
        from tokenmill.base.progress import Progress
        from tokenmill.preparation import Run
        class Kill(Progress):
            def follow(self, what, results, **options):
                for number, result in enumerate(results, 1):
                    if (what, number) == {(stage, number)!r}:
                        os.kill(os.getpid(), signal.SIGKILL)
                    yield result
        run = Run(unit_bytes=8000, progress=Kill())
        tokenmill.train_tokenizer({str(rows)!r}, {str(out)!r}, vocab_size=600, workers=1, run=run)
    """
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert sorted(path.name for path in out.iterdir()) == [".preparation"]

    flat.train_tokenizer(rows, out, vocab_size=600, workers=1, unit_bytes=8000)

    assert hashes_of_files(out) == hashes_of_files(trained)


@pytest.mark.parametrize("pattern", [*ONE_EXPRESSION, OWN])
def test_tokenizers_and_tiktoken_and_prepare_give_the_same_ids(rows, tmp_path, pattern):
    from tokenizers import Tokenizer

    specials = ["<|endoftext|>", "<|user|>"]
    out = tmp_path / "tok"
    flat.train_tokenizer(rows, out, vocab_size=700, pattern=pattern, special=specials)
    texts = [*MANUAL[30:40], PROBE.decode(), "x<|user|>y <|endoftext|>", "aaaaaaa  \n\n   b\n"]

    ours = load(str(out))
    theirs = Tokenizer.from_file(str(out / "tokenizer.json"))
    theirs.encode_special_tokens = True
    openai = tiktoken.Encoding(
        "trained",
        pat_str=ONE_EXPRESSION.get(pattern, pattern),
        mergeable_ranks={token: rank for rank, token in tokens_in(out).items()},
        special_tokens={"<|endoftext|>": 698, "<|user|>": 699},
    )

    ranks = load(str(out / "tokenizer.tiktoken"), pattern=pattern, end_of_text=698)

    engine = "tokenizers" if pattern == OWN else "gigatoken"
    assert (ours.backend, ours.vocab_size, ours.end_of_text_id) == (engine, 700, 698)
    assert dict(ours.special_ids) == {"<|endoftext|>": 698, "<|user|>": 699}
    for text in texts:
        ids = ours.encode_batch([text.encode()])[0].tolist()
        assert ids == theirs.encode(text).ids
        assert ids == openai.encode_ordinary(text)
        assert ids == ranks.encode_batch([text.encode()])[0].tolist()
        assert ours.decode(np.array(ids)).decode() == text
        assert theirs.decode(ids) == text
    theirs.encode_special_tokens = False
    assert theirs.encode("a<|user|>").ids[-1] == 699


def test_prepare_takes_the_folder(rows, trained, tmp_path):
    as_it_is = {"clean": False, "dedup": "none", "val_fraction": 0}
    flat.prepare(rows, tmp_path / "data", tokenizer=str(trained), **as_it_is)

    tokenizer = load(str(trained))
    documents = read_dataset(tmp_path / "data")["train"]
    assert tokenizer.decode(np.array(documents[0][:-1])).decode() == DOCUMENTS[0]
    assert tokenmill.open(tmp_path / "data").tokenizer.fingerprint == tokenizer.fingerprint


def test_the_same_again_is_left_as_it_is(rows, trained):
    before = {path.name: path.stat().st_mtime_ns for path in trained.iterdir()}

    done = flat.train_tokenizer(rows, trained, vocab_size=600)

    assert done.already_there
    assert done.vocab_size == 600
    assert {path.name: path.stat().st_mtime_ns for path in trained.iterdir()} == before


def test_an_input_with_a_time_in_the_future_has_not_changed(tmp_path):
    (tmp_path / "a.txt").write_text("one two three one two three\n" * 9)
    tomorrow = time.time() + 86_400
    os.utime(tmp_path / "a.txt", (tomorrow, tomorrow))
    for already_there in (False, True):
        done = flat.train_tokenizer(tmp_path / "a.txt", tmp_path / "tok", vocab_size=260)
        assert done.already_there == already_there


def test_another_one_is_refused_unless_it_is_to_be_replaced(rows, trained, tmp_path):
    out = tmp_path / "tok"
    flat.train_tokenizer(rows, out, vocab_size=400)

    with pytest.raises(SettingsMismatchError, match=r"vocab_size   400 -> 600") as refused:
        flat.train_tokenizer(rows, out, vocab_size=600)
    assert "overwrite=True" in refused.value.hint
    assert len(tokens_in(out)) == 399

    flat.train_tokenizer(rows, out, vocab_size=600, overwrite=True)
    assert hashes_of_files(out) == hashes_of_files(trained)


def test_work_on_another_training_is_refused_or_thrown_away(rows, trained, tmp_path):
    """Overwriting removes the work, and nothing else in the folder."""
    out = tmp_path / "tok"

    class Stop(Progress):
        def follow(self, what, results, **options):
            if what == "merges":
                raise KeyboardInterrupt
            return super().follow(what, results, **options)

    with pytest.raises(KeyboardInterrupt):
        flat.train_tokenizer(rows, out, vocab_size=600, pattern="o200k", progress=Stop())
    (out / "notes.txt").write_text("mine")
    with pytest.raises(SettingsMismatchError, match="token_pattern"):
        flat.train_tokenizer(rows, out, vocab_size=600)
    flat.train_tokenizer(rows, out, vocab_size=600, overwrite=True)

    found = hashes_of_files(out)
    assert found.pop("notes.txt")
    assert found == hashes_of_files(trained)


def test_too_little_text_gives_fewer_ids_and_says_so(tmp_path):
    (tmp_path / "a.txt").write_text("abab ab", "utf-8")

    done = flat.train_tokenizer(tmp_path / "a.txt", tmp_path / "tok", vocab_size=1000)

    assert done.vocab_size == 258  # "ab" is the only pair that is there twice
    assert tokens_in(tmp_path / "tok")[256] == b"ab"
    assert load(str(tmp_path / "tok")).vocab_size == 258


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 256}, r"vocab_size is 256, but must be 257 \(256 bytes and 1 special"),
        ({"vocab_size": 257, "special": ["a", "b"]}, "must be 258"),
        ({"vocab_size": 1 << 30}, "1,048,576"),
        ({"pattern": "gpt5"}, "unknown pattern 'gpt5'; did you mean 'gpt2'"),
        ({"special": ["<|a|>", "<|b|>", "<|a|>"]}, r"'<\|a\|>' is given twice"),
        ({"special": [""]}, "'' is not printable"),
        ({"special": ["a\n"]}, "is not printable"),
        ({"workers": 0}, "workers is 0"),
        ({"max_ram": "1M"}, "max_ram is 1M"),
        ({"dedup": "words"}, "dedup is 'words'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(rows, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        flat.train_tokenizer(rows, tmp_path / "tok", **options)
    assert not (tmp_path / "tok").exists()


def test_other_mistakes_are_named(rows, trained, tmp_path):
    with pytest.raises(TypeError, match="expected list of str"):
        flat.train_tokenizer(rows, tmp_path / "tok", special="<|a|>")
    with pytest.raises(TypeError, match="no argument 'val_fraction'"):
        flat.train_tokenizer(rows, tmp_path / "tok", val_fraction=0.1)
    with pytest.raises(ValueError, match="is a file"):
        flat.train_tokenizer(rows, rows / "a.jsonl")
    with pytest.raises(SettingsMismatchError, match="holds 2 files or folders but no tokenizer"):
        flat.train_tokenizer(rows, rows, overwrite=True)
    assert not (tmp_path / "tok").exists()


@pytest.mark.parametrize("text", ["", " \n \n"])
def test_inputs_without_text_are_refused(tmp_path, text):
    (tmp_path / "a.txt").write_text(text, "utf-8")
    with pytest.raises(BadInputError, match="no text"):
        flat.train_tokenizer(tmp_path / "a.txt", tmp_path / "tok", clean=True)
    assert not (tmp_path / "tok").exists()


def test_text_that_is_not_utf8(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good words, good words\n\xff\xfebad \xc3\n" * 3)
    with pytest.raises(BadInputError, match="UTF-8"):
        flat.train_tokenizer(tmp_path / "a.txt", tmp_path / "tok")

    done = flat.train_tokenizer(tmp_path / "a.txt", tmp_path / "tok", on_bad_input="replace")

    assert done.documents == 1
    assert b" words" in tokens_in(tmp_path / "tok").values()


def test_two_runs_do_not_share_a_folder(rows, tmp_path):
    class Second(Progress):
        def follow(self, what, results, **options):
            with pytest.raises(LockedError):
                flat.train_tokenizer(rows, tmp_path / "tok")
            return super().follow(what, results, **options)

    flat.train_tokenizer(rows, tmp_path / "tok", vocab_size=300, progress=Second())


class TestWordFiles:
    WORDS: list[dict[bytes, int]] = [  # noqa: RUF012
        {b"the": 5, b" mill": 2, b"\n": 1},
        {},
        {b" mill": 2**40, b"x" * 3000: 1, "\u6c34".encode(): 3},
    ]

    @pytest.mark.parametrize("num_partitions", [1, 2, 7])
    def test_every_word_is_in_one_partition_of_each_file(self, tmp_path, num_partitions):
        found = Counter()
        partitions = {}
        for at, words in enumerate(self.WORDS):
            write_words(tmp_path / f"{at}", words, num_partitions)
            for partition in range(num_partitions):
                for word, count in read_words(tmp_path / f"{at}", partition).items():
                    found[word.encode()] += count
                    assert partitions.setdefault(word, partition) == partition

        assert found == sum(map(Counter, self.WORDS), Counter())

    def test_words_that_do_not_fit_into_memory_are_left_out_by_their_count(self, tmp_path):
        """Five symbols for each word of four letters; there is room for six words."""
        counts = {"aaaa": 9, "bbbb": 2, "cccc": 2, "dddd": 7, "eeee": 2, "ffff": 3, "g": 1}
        files = [tmp_path / "words"]
        files[0].write_text(json.dumps(counts))
        room = BYTES_PER_SYMBOL * 5

        def kept(num_words):
            chosen = choose_words(files, PER_DRIVER + num_words * room)
            text = chosen.text.decode()
            words = sorted(text[at : at + 4] for at in range(0, len(text), 4))
            return words, chosen.least_count, chosen.left_out

        assert kept(6) == (sorted(counts)[:6], 2, 1)
        assert kept(5) == (["aaaa", "dddd", "ffff"], 3, 4)  # not some of the three with 2
        assert kept(2) == (["aaaa", "dddd"], 4, 5)
        assert choose_words(files, None).left_out == 0
