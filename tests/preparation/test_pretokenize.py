"""FILE.txt becomes FILE.npy: the ids of the whole text, however it is read, stopped and resumed."""

import base64
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from preparation.runs import done_tasks
from tokens.patterns import PATTERNS

import tokenmill
from tokenmill.base.progress import Progress
from tokenmill.cli import tokenmill as command_group
from tokenmill.compat.text_file import open_text
from tokenmill.errors import (
    BadInputError,
    CorruptShardError,
    LockedError,
    MismatchError,
    PrepareError,
    TokenizerMismatchError,
)
from tokenmill.preparation.planning import limits
from tokenmill.preparation.pretokenize import TextArray, pretokenize
from tokenmill.preparation.workspace.target import hold_workspace
from tokenmill.preparation.workspace.work_folder import WorkFolder
from tokenmill.shards import writer
from tokenmill.text.inputs.open_input import InputStream
from tokenmill.text.reading import cut_pieces
from tokenmill.tokens.load_tokenizer import from_state, load

SOURCE = Path(tokenmill.__file__).parents[1]
TEXT = Path(subprocess.__file__).read_text() + "na\u00efve \u6c34\u8eca\uff0c\u6c34 <|endoftext|>\n"
END = 50256


@pytest.fixture(scope="module")
def oracle():
    lines = (SOURCE / "tokenmill/tokens/data/gpt2.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(a): int(b) for a, b in map(bytes.split, lines)}
    encoding = tiktoken.Encoding(
        "gpt2", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens={}
    )
    return encoding.encode_ordinary


@pytest.fixture(scope="module")
def gpt2():
    return load("gpt2")


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT)
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def saved_by_numpy(ids, dtype):
    file = io.BytesIO()
    np.save(file, np.array(ids, dtype))
    return file.getvalue()


class Watch(Progress):
    """Calls `after` with the bytes read so far, after each unit; keeps the receipts it saw."""

    def __init__(self, folder, after=lambda num_bytes: None):
        self.work, self.after = folder / ".corpus.npy.work/.preparation", after

    def receipts(self):
        return Counter(done_tasks(self.work, "units"))

    def follow(self, what, results, **total):
        if what != "encode":
            yield from results
            return
        self.before, num_bytes = self.receipts(), 0
        for result in results:
            num_bytes += total["measure"](result)[0]
            self.after(num_bytes)
            yield result
        self.at_end = self.receipts()


def stop_after(folder, limit):
    def stop(num_bytes):
        if num_bytes >= limit:
            raise KeyboardInterrupt

    return Watch(folder, stop)


def make_older(path, than):
    os.utime(path, ns=(0, os.stat(than).st_mtime_ns - 1))


def test_the_array_is_byte_for_byte_what_numpy_would_save(corpus, gpt2, oracle):
    (result,) = pretokenize(corpus, tokenizer=gpt2)

    expected = saved_by_numpy(oracle(TEXT), "<u2")
    assert corpus.with_suffix(".npy").read_bytes() == expected
    assert names(corpus.parent) == ["corpus.npy", "corpus.tokenizer_state.json", "corpus.txt"]
    assert result.tokens == len(oracle(TEXT))
    assert result.characters == len(TEXT)
    assert result.characters_per_token == len(TEXT) / len(oracle(TEXT))
    assert (result.bytes, result.dtype, result.documents) == (len(expected), "uint16", 0)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int32", "int64"])
def test_the_stored_type_can_be_chosen(corpus, gpt2, oracle, dtype):
    pretokenize(corpus, tokenizer=gpt2, dtype=dtype)

    ids = np.load(corpus.with_suffix(".npy"), mmap_mode="r")
    assert ids.dtype == np.dtype(dtype)
    assert ids.tolist() == oracle(TEXT)


def test_an_array_that_does_not_read_back_as_it_was_written_is_refused(corpus, gpt2, monkeypatch):
    monkeypatch.setattr(writer, "hash_file", lambda path: "0" * 32)

    with pytest.raises(CorruptShardError, match="but reads back as 0000"):
        pretokenize(corpus, tokenizer=gpt2)

    assert names(corpus.parent) == ["corpus.txt"]


def test_types_that_do_not_hold_the_vocabulary_are_refused(corpus, tmp_path):
    from tokenmill.tokens.bytes_and_chars import CharsTokenizer

    large = CharsTokenizer.build(map(chr, range(0x10000, 0x20001)))

    with pytest.raises(ValueError, match=r"dtype is uint16, but ids of .* pass dtype=.uint32"):
        pretokenize(corpus, tokenizer=large, dtype="uint16")
    with pytest.raises(ValueError, match=r"dtype is .int8.; known are: .*, int32, int64"):
        pretokenize(corpus, dtype="int8")
    assert names(tmp_path) == ["corpus.txt"]


PARTS = st.lists(
    st.sampled_from(
        [
            "the",
            " ",
            "  ",
            "\n",
            "mill",
            "<|",
            "|>",
            "<|endoftext|>",
            "\u6c34\uff0c\u6c34",
            "1",
            "\t",
        ]
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(
    parts=PARTS, unit=st.integers(1, 60), separator=st.sampled_from([None, "<|endoftext|>", "\n"])
)
def test_the_size_of_a_unit_changes_nothing(gpt2, oracle, parts, unit, separator):
    text = "".join(parts) or "x"
    documents = [d for d in text.split(separator) if d] if separator else [text]
    closing = [END] if separator else []
    expected = [i for document in documents for i in (*oracle(document), *closing)]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        path.write_bytes(text.encode())
        if not expected:
            with pytest.raises(BadInputError, match="is empty"):
                pretokenize(path, tokenizer=gpt2, separator=separator, unit_bytes=unit)
            return
        (found,) = pretokenize(path, tokenizer=gpt2, separator=separator, unit_bytes=unit)

        assert path.with_suffix(".npy").read_bytes() == saved_by_numpy(expected, "<u2")
        assert found.characters == len(text)
        assert found.documents == (len(documents) if separator else 0)


@settings(max_examples=30, deadline=None)
@given(parts=PARTS, separator=st.sampled_from([None, "<|endoftext|>"]), data=st.data())
def test_resuming_after_any_unit_gives_the_same(gpt2, parts, separator, data):
    text = "".join(parts) + "x"
    options = {"tokenizer": gpt2, "separator": separator, "unit_bytes": 7}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        path.write_bytes(text.encode())
        limit = data.draw(st.integers(0, len(text.encode())))
        with pytest.raises(KeyboardInterrupt):
            pretokenize(path, progress=stop_after(path.parent, limit), **options)
        pretokenize(path, **options)
        resumed = path.with_suffix(".npy").read_bytes()

        pretokenize(path, force=True, **options)

        assert path.with_suffix(".npy").read_bytes() == resumed


class TestStopping:
    """Whenever it is stopped, the same command gives the same bytes."""

    @pytest.mark.parametrize("stop_at", [1, 9, 30_000, 60_000])
    def test_an_interrupted_run_resumes_where_it_was(self, corpus, gpt2, oracle, stop_at):
        with pytest.raises(KeyboardInterrupt):
            pretokenize(
                corpus, tokenizer=gpt2, progress=stop_after(corpus.parent, stop_at), unit_bytes=3000
            )
        assert not corpus.with_suffix(".npy").exists()
        watch = Watch(corpus.parent)
        pretokenize(corpus, tokenizer=gpt2, progress=watch, unit_bytes=3000)

        assert corpus.with_suffix(".npy").read_bytes() == saved_by_numpy(oracle(TEXT), "<u2")
        assert names(corpus.parent) == ["corpus.npy", "corpus.tokenizer_state.json", "corpus.txt"]
        assert len(watch.before) >= max(1, stop_at // 3000 - 1)
        assert watch.before.items() <= watch.at_end.items()  # no unit was encoded twice

    @pytest.mark.parametrize("kill_at", [2, 14])
    def test_a_killed_run_resumes_too(self, corpus, gpt2, oracle, kill_at):
        code = f"""if True:
            import os, signal
            from tokenmill import pretokenize
            from tokenmill.base.progress import Progress
            class Kill(Progress):
                def follow(self, what, results, **total):
                    for number, result in enumerate(results, 1):
                        if number == {kill_at}:
                            os.kill(os.getpid(), signal.SIGKILL)
                        yield result
            pretokenize({str(corpus)!r}, tokenizer="bytes", dtype="uint32", progress=Kill(),
                        unit_bytes=3000)
        """
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
        assert done.returncode == -9, done.stderr.decode()
        watch = Watch(corpus.parent)

        pretokenize(corpus, tokenizer="bytes", dtype="uint32", progress=watch, unit_bytes=3000)

        expected = saved_by_numpy(list(TEXT.encode()), "<u4")
        assert corpus.with_suffix(".npy").read_bytes() == expected
        assert len(names(corpus.parent)) == 3
        assert len(watch.before) == kill_at
        assert watch.before.items() <= watch.at_end.items()

    def test_a_run_stopped_before_the_last_step_encodes_nothing_again(
        self, corpus, gpt2, oracle, monkeypatch
    ):
        def stop(array, path):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(TextArray, "_publish", stop)
            with pytest.raises(KeyboardInterrupt):
                pretokenize(corpus, tokenizer=gpt2, unit_bytes=3000)
        watch = Watch(corpus.parent)
        pretokenize(corpus, tokenizer=gpt2, progress=watch, unit_bytes=3000, dtype="int64")

        assert watch.before == watch.at_end != {}
        assert corpus.with_suffix(".npy").read_bytes() == saved_by_numpy(oracle(TEXT), "<i8")

    @pytest.mark.parametrize("other", [{"dtype": "int32"}, {"separator": "\n"}])
    def test_other_settings_start_again(self, corpus, gpt2, other):
        with pytest.raises(KeyboardInterrupt):
            pretokenize(
                corpus, tokenizer=gpt2, progress=stop_after(corpus.parent, 30_000), unit_bytes=3000
            )
        pretokenize(corpus, tokenizer=gpt2, unit_bytes=3000, **other)
        interrupted = corpus.with_suffix(".npy").read_bytes()
        pretokenize(corpus, tokenizer=gpt2, force=True, **other)

        assert corpus.with_suffix(".npy").read_bytes() == interrupted

    def test_a_text_that_changed_since_it_was_stopped_is_read_from_its_start(
        self, corpus, gpt2, oracle
    ):
        with pytest.raises(KeyboardInterrupt):
            pretokenize(
                corpus, tokenizer=gpt2, progress=stop_after(corpus.parent, 30_000), unit_bytes=3000
            )
        corpus.write_text(TEXT.upper())

        pretokenize(corpus, tokenizer=gpt2, unit_bytes=3000)

        assert np.load(corpus.with_suffix(".npy")).tolist() == oracle(TEXT.upper())

    @pytest.mark.parametrize("unit_bytes", [3000, 32 << 20])
    def test_a_text_that_changes_while_it_is_read_is_refused(self, corpus, gpt2, unit_bytes):
        def append(num_bytes):
            with corpus.open("a") as file:
                file.write("more")

        with pytest.raises(PrepareError, match="changed while it was read"):
            pretokenize(
                corpus,
                tokenizer=gpt2,
                progress=Watch(corpus.parent, append),
                unit_bytes=unit_bytes,
            )

        assert names(corpus.parent) == ["corpus.txt"]

    def test_a_second_writer_is_refused_and_does_no_harm(self, corpus, gpt2):
        with hold_workspace(
            WorkFolder(corpus.with_name(".corpus.npy.work")), break_lock=False
        ) as first:
            first.path("units", "").mkdir()
            with pytest.raises(LockedError, match="is being written by process") as refused:
                pretokenize(corpus, tokenizer=gpt2)

            assert "remove the folder" in refused.value.hint
            assert first.path("units", "").exists()
            assert first.lock_file.exists()


class TestAnArrayThatIsThere:
    """A newer one is kept, if it is what was asked for; an older one is replaced."""

    @pytest.fixture(autouse=True)
    def _older_text(self, corpus, gpt2):
        pretokenize(corpus, tokenizer=gpt2)
        make_older(corpus, corpus.with_suffix(".npy"))

    def test_one_of_this_text_is_kept(self, corpus, gpt2):
        before = corpus.with_suffix(".npy").stat()

        (result,) = pretokenize(corpus, tokenizer=gpt2)

        after = corpus.with_suffix(".npy").stat()
        assert (result.kept, result.characters) == (True, None)
        # Not the time of access, which reading its header may change.
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_force_writes_it_again(self, corpus, gpt2):
        before = corpus.with_suffix(".npy").stat().st_ino

        (result,) = pretokenize(corpus, tokenizer=gpt2, force=True)

        assert not result.kept
        assert corpus.with_suffix(".npy").stat().st_ino != before

    def test_one_of_another_text_is_written_again(self, corpus, gpt2, oracle):
        corpus.write_text("new text")
        make_older(corpus.with_suffix(".npy"), corpus)

        pretokenize(corpus, tokenizer=gpt2)

        assert np.load(corpus.with_suffix(".npy")).tolist() == oracle("new text")

    def test_in_a_copied_folder_it_is_kept_whatever_the_times(self, corpus, gpt2):
        make_older(corpus.with_suffix(".npy"), corpus)

        (result,) = pretokenize(corpus, tokenizer=gpt2)

        assert result.kept
        (train,) = open_text(corpus, ["train"], tokenizer=gpt2, say=str, warn=str)
        assert train.num_tokens == result.tokens * 9 // 10

    @pytest.mark.parametrize("place", [0, 80_000, -1])
    def test_one_of_another_text_of_the_same_size_and_time_is_not(self, corpus, gpt2, place):
        about = corpus.stat()
        text = bytearray(corpus.read_bytes())
        text[place] ^= 1
        corpus.write_bytes(text)
        os.utime(corpus, ns=(about.st_atime_ns, about.st_mtime_ns))

        with pytest.raises(MismatchError, match="was made from another text"):
            open_text(corpus, ["train"], tokenizer=gpt2, say=str, warn=str)
        assert not pretokenize(corpus, tokenizer=gpt2)[0].kept

    def test_a_text_with_a_time_in_the_future_is_not_written_for_ever(self, corpus, gpt2):
        tomorrow = time.time() + 86_400
        os.utime(corpus, (tomorrow, tomorrow))
        pretokenize(corpus, tokenizer=gpt2, force=True)

        (result,) = pretokenize(corpus, tokenizer=gpt2)

        assert result.kept
        (train,) = open_text(corpus, ["train"], tokenizer=gpt2, say=str, warn=str)
        assert train.num_tokens == result.tokens * 9 // 10

    def test_one_of_another_type_is_refused(self, corpus, gpt2):
        with pytest.raises(MismatchError, match=r"made with dtype .uint16., not .int32."):
            pretokenize(corpus, tokenizer=gpt2, dtype="int32")

    def test_one_of_another_tokenizer_is_refused(self, corpus):
        with pytest.raises(TokenizerMismatchError, match="made with fingerprint"):
            pretokenize(corpus, tokenizer="bytes")

    @pytest.mark.parametrize(("made", "wanted"), [(None, "\n\n"), ("\n\n", None), ("\n\n", "\n")])
    def test_one_of_another_separator_is_refused(self, corpus, gpt2, made, wanted):
        pretokenize(corpus, tokenizer=gpt2, separator=made, force=True)
        before = corpus.with_suffix(".npy").read_bytes()

        with pytest.raises(MismatchError, match="made with separator") as refused:
            pretokenize(corpus, tokenizer=gpt2, separator=wanted)

        assert "force=True" in refused.value.hint
        assert corpus.with_suffix(".npy").read_bytes() == before
        assert pretokenize(corpus, tokenizer=gpt2, separator=made)[0].kept
        assert not pretokenize(corpus, tokenizer=gpt2, separator=wanted, force=True)[0].kept

    def test_one_without_a_record_of_how_it_was_made_is_refused(self, corpus, gpt2):
        corpus.with_name("corpus.tokenizer_state.json").unlink()

        with pytest.raises(MismatchError, match="nothing says that its fingerprint is") as refused:
            pretokenize(corpus, tokenizer=gpt2)

        assert "force=True" in refused.value.hint

    def test_one_that_is_no_array_is_refused(self, corpus, gpt2):
        corpus.with_suffix(".npy").write_bytes(b"precious")

        with pytest.raises(MismatchError, match=r"is not a \.npy"):
            pretokenize(corpus, tokenizer=gpt2)

        assert corpus.with_suffix(".npy").read_bytes() == b"precious"


class TestInputs:
    """What is read, and what is refused."""

    def test_a_compressed_text_is_read(self, tmp_path, gpt2, oracle):
        (tmp_path / "a.b.txt.gz").write_bytes(gzip.compress(TEXT.encode()))

        (result,) = pretokenize(tmp_path / "a.b.txt.gz", tokenizer=gpt2)

        assert Path(result.npy) == tmp_path / "a.b.npy"
        assert np.load(tmp_path / "a.b.npy").tolist() == oracle(TEXT)
        assert result.characters == len(TEXT)

    def test_a_compressed_text_is_decompressed_once(self, tmp_path, gpt2, monkeypatch):
        (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
        sizes, read = [], InputStream.read

        def count(stream, size):
            sizes.append(len(data := read(stream, size)))
            return data

        monkeypatch.setattr(InputStream, "read", count)
        pretokenize(tmp_path / "a.txt.gz", tokenizer=gpt2)

        assert sum(sizes) == len(TEXT.encode())

    def test_a_truncated_archive_leaves_nothing(self, tmp_path, gpt2):
        (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode())[:-20])

        with pytest.raises(BadInputError, match="cut short"):
            pretokenize(tmp_path / "a.txt.gz", tokenizer=gpt2)

        assert names(tmp_path) == ["a.txt.gz"]

    def test_bytes_that_are_not_utf8_are_named_by_their_place(self, tmp_path, gpt2):
        (tmp_path / "a.txt").write_bytes(b"good " * 4000 + b"caf\xe9 bar")

        with pytest.raises(BadInputError, match="at byte 20,003: not UTF-8") as refused:
            pretokenize(tmp_path / "a.txt", tokenizer=gpt2, unit_bytes=3000)

        assert "tokenmill prepare --on_bad_input replace" in refused.value.hint

        assert names(tmp_path) == ["a.txt"]

    @pytest.mark.parametrize("unit_bytes", [100, 32 << 20])
    @pytest.mark.parametrize("tokenizer", ["gpt2", "bytes", "chars"])
    def test_a_character_cut_off_at_the_end_is_not_utf8(self, tmp_path, tokenizer, unit_bytes):
        (tmp_path / "a.txt").write_bytes("words \u6c34".encode()[:-1])

        with pytest.raises(BadInputError, match="at byte 6: not UTF-8"):
            pretokenize(tmp_path / "a.txt", tokenizer=tokenizer, unit_bytes=unit_bytes)

    def test_an_empty_text_is_refused(self, tmp_path, gpt2):
        (tmp_path / "a.txt").touch()

        with pytest.raises(BadInputError, match="is empty"):
            pretokenize(tmp_path / "a.txt", tokenizer=gpt2)

        assert names(tmp_path) == ["a.txt"]

    def test_json_lines_are_left_to_prepare(self, tmp_path):
        (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')

        with pytest.raises(BadInputError, match="is jsonl, not plain text") as caught:
            pretokenize(tmp_path / "a.jsonl")

        assert "tokenmill prepare" in caught.value.hint

    def test_two_texts_for_one_array_are_refused(self, tmp_path):
        (tmp_path / "a.txt").write_text("x")
        (tmp_path / "a.md").write_text("x")

        with pytest.raises(ValueError, match="would both become"):
            pretokenize([tmp_path / "a.txt", tmp_path / "a.md"])

    def test_a_missing_file_a_folder_and_an_array_are_refused(self, tmp_path):
        with pytest.raises(PrepareError, match="cannot read"):
            pretokenize(tmp_path / "none.txt")
        with pytest.raises(ValueError, match="is a folder"):
            pretokenize(tmp_path)
        with pytest.raises(ValueError, match="is an array already"):
            pretokenize(tmp_path / "a.npy")

    def test_a_stretch_that_cannot_be_cut_has_a_limit(self, tmp_path, gpt2, monkeypatch):
        (tmp_path / "a.txt").write_text("a" * 5000)
        monkeypatch.setattr(cut_pieces, "CUT_BOUND", 1000)

        with pytest.raises(BadInputError, match="no place to cut") as refused:
            pretokenize(tmp_path / "a.txt", tokenizer=gpt2, unit_bytes=100)

        assert "separator=" in refused.value.hint
        assert names(tmp_path) == ["a.txt"]


class TestATokenizerThatAllowsNoCut:
    """Each document is encoded in one piece, up to a size."""

    @pytest.fixture
    def words(self, tmp_path):
        tokenizers = pytest.importorskip("tokenizers")
        vocabulary = {"one": 0, "two": 1, "three": 2, "[UNK]": 3, "</s>": 4}
        model = tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]")
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer.add_special_tokens(["</s>"])
        tokenizer.save(str(tmp_path / "words.json"))
        found = load(str(tmp_path / "words.json"))
        assert found.cuts is None
        return found

    def test_documents_are_encoded_whole_whatever_the_unit(self, tmp_path, words):
        documents = ["one two", "three " * 50, "two", "one four"]
        (tmp_path / "a.txt").write_text("|".join(documents))

        pretokenize(tmp_path / "a.txt", tokenizer=words, separator="|", unit_bytes=9)

        expected = [0, 1, 4, *[2] * 50, 4, 1, 4, 0, 3, 4]
        assert np.load(tmp_path / "a.npy").tolist() == expected

    def test_one_that_is_too_large_is_refused_and_names_the_separator(
        self, tmp_path, words, monkeypatch
    ):
        monkeypatch.setattr(limits, "MAX_DOCUMENT_BYTES", 100)
        (tmp_path / "a.txt").write_text("one two " * 50)

        with pytest.raises(BadInputError, match="has more than 100 bytes") as refused:
            pretokenize(tmp_path / "a.txt", tokenizer=words)

        assert refused.value.hint == "say what separates documents: separator="
        assert names(tmp_path) == ["a.txt", "words.json"]


def test_chars_learns_one_vocabulary_from_all_texts_and_stores_it(tmp_path):
    (tmp_path / "train.txt").write_text("hello w\u00f6rld")
    (tmp_path / "val.txt").write_text("yellow\n")

    pretokenize([tmp_path / "train.txt", tmp_path / "val.txt"], tokenizer="chars")

    for name, text in [("train", "hello w\u00f6rld"), ("val", "yellow\n")]:
        ids = np.load(tmp_path / f"{name}.npy")
        state = json.loads((tmp_path / f"{name}.tokenizer_state.json").read_bytes())
        assert from_state(state).decode(ids).decode() == text
        assert ids.tolist() == [sorted(set("hello w\u00f6rldyellow\n")).index(c) for c in text]


def test_memory_does_not_grow_with_the_file(tmp_path):
    """80 MB of text, in less memory than the text alone would take beyond the tokenizer."""
    (tmp_path / "big.txt").write_text(TEXT * (80_000_000 // len(TEXT)))
    code = f"""if True:
        import resource
        from tokenmill import pretokenize
        from tokenmill.tokens.load_tokenizer import load
        tokenizer = load("gpt2")
        tokenizer.encode_batch([b"warm"])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pretokenize({str(tmp_path / "big.txt")!r}, tokenizer=tokenizer, unit_bytes=1 << 20)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}

    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    )

    assert int(out.stdout) < 50_000  # kB


class TestCommand:
    """The command and the script say the same."""

    def run(self, *arguments):
        return CliRunner().invoke(command_group, ["pretokenize", *map(str, arguments)])

    def test_it_prints_what_the_seed_prints(self, corpus, oracle):
        result = self.run(corpus)

        tokens = len(oracle(TEXT))
        assert result.exit_code == 0, result.output
        assert result.stdout == ""
        assert f"Wrote {corpus.with_suffix('.npy')}" in result.stderr
        assert f"characters            {len(TEXT):,}" in result.stderr
        assert f"tokens                {tokens:,} of gpt2" in result.stderr
        assert f"characters per token  {len(TEXT) / tokens:.2f}" in result.stderr
        assert "uint16" in result.stderr

    def test_json_is_one_object_and_flags_take_both_spellings(self, corpus, oracle):
        result = self.run(corpus, "--json", "--dtype", "int32", "--separator", "<|endoftext|>")

        tree = json.loads(result.stdout)
        assert tree["files"][0]["tokens"] == np.load(corpus.with_suffix(".npy")).size
        assert tree["files"][0]["documents"] == 2
        assert tree["files"][0]["characters_per_token"] > 1
        assert np.load(corpus.with_suffix(".npy"))[-1] == END
        again = self.run(corpus, "--end_of_text", "</s>")
        assert "gpt2 has its own end-of-text id" in str(again.exception)

    def test_a_kept_array_is_said_to_be_kept(self, corpus):
        self.run(corpus, "-q")

        result = self.run(corpus)

        assert "it was made from" in result.stderr
        assert "--force" in result.stderr

    def test_quiet_says_nothing(self, corpus):
        result = self.run(corpus, "--quiet", "--tokenizer", "bytes")

        assert (result.exit_code, result.output) == (0, "")

    def test_sigterm_ends_it_with_75_and_the_same_command_resumes(self, corpus):
        code = f"""if True:
            import os, signal, sys
            from tokenmill.base.progress import Lines
            from tokenmill.cli import main
            Lines.follow = lambda *_, **total: os.kill(os.getpid(), signal.SIGTERM)
            main(["pretokenize", {str(corpus)!r}, "--tokenizer", "bytes"])
        """
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}

        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
        again = self.run(corpus, "--tokenizer", "bytes")

        assert (done.returncode, b"stopped" in done.stderr) == (75, True), done.stderr.decode()
        assert again.exit_code == 0
        assert np.load(corpus.with_suffix(".npy")).tolist() == list(TEXT.encode())

    def test_the_script_is_the_command(self, corpus):
        script = SOURCE.parent / "scripts" / "pretokenize_dataset.py"
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}

        done = subprocess.run(
            [sys.executable, str(script), str(corpus)], env=environment, capture_output=True
        )

        assert done.returncode == 0, done.stderr.decode()
        assert corpus.with_suffix(".npy").exists()


def test_a_tokenizer_that_its_package_encodes_is_said_so(tmp_path):
    lines = []
    progress = Progress()
    progress.say = lines.append
    (tmp_path / "a.txt").write_text("2026 was a good year")
    ranks = str(SOURCE / "tokenmill/tokens/data/gpt2.tiktoken")
    tokenizer = load(ranks, pattern=r"\p{L}+|[^\p{L}]", end_of_text=END)

    pretokenize(tmp_path / "a.txt", tokenizer=tokenizer, progress=progress)

    assert "gpt2.tiktoken is encoded by the package tiktoken" in lines[0]
