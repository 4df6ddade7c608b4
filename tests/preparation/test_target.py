"""Where a preparation goes: what is refused, with the differences said, and what is replaced."""

import io
import json
import os
import shutil
import signal
import socket
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from flat import estimate, prepare
from preparation.oracle import hashes_of_files
from preparation.runs import assert_nothing_stray, run, start, start_and_hold, wait_until
from system_faults import RENAMES, injecting, needs_strace

import tokenmill
from tokenmill.base.progress import Progress
from tokenmill.errors import (
    FormatError,
    LockedError,
    NotADatasetError,
    PrepareError,
    SettingsMismatchError,
    TokenmillError,
)
from tokenmill.preparation import jobs
from tokenmill.preparation.workspace import work_folder

BYTES = {"tokenizer": "bytes", "workers": 1}


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"This is the text of file {name}.\n" * 3)
    return folder


def stop_in_the_middle(arguments, pattern="units"):
    """A preparation that was killed and left a plan; tried again where it was done too soon."""
    for _ in range(20):
        process = start(arguments, start_new_session=True)
        if wait_until(process, arguments["out_dir"] / ".preparation", pattern, 1):
            break
        process.communicate()
        shutil.rmtree(arguments["out_dir"])
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert (arguments["out_dir"] / ".preparation" / "plan.json").exists()


def test_finished_and_asked_for_again(texts, tmp_path):
    first = prepare(texts, tmp_path / "out", **BYTES)
    before = hashes_of_files(tmp_path / "out")
    again = prepare(texts, tmp_path / "out", **BYTES)
    assert again.train_tokens == first.train_tokens
    assert again.notes == ["it was complete already"]
    assert hashes_of_files(tmp_path / "out") == before


@pytest.mark.parametrize("append", [False, True])
def test_a_finished_dataset_that_is_damaged(texts, tmp_path, append):
    """It is looked at before it is said to be there: every file of it, by its size."""
    out, more = tmp_path / "out", tmp_path / "more.txt"
    prepare(texts, out, **BYTES)
    before = hashes_of_files(out)
    more.write_text("A text that is new.\n")
    os.utime(more, (0, 0))
    asked = {"inputs": more if append else texts, "out_dir": out, "append": append, **BYTES}
    (out / "train" / "shard_00000.bin").unlink()
    os.truncate(out / "val" / "shard_00001.ends", 3)
    with pytest.raises(FormatError, match="2 of 5 files") as refused:
        prepare(**asked)
    for line in (
        "train/shard_00000.bin   is missing",
        "val/shard_00001.ends   has 3 bytes, not 8",
        "overwrite=True",
        f"tokenmill verify {out}",
    ):
        assert line in str(refused.value)
    prepare(texts, out, **BYTES, overwrite=True)
    assert hashes_of_files(out) == before
    prepare(**asked)


def test_a_finished_dataset_of_other_settings_or_inputs(texts, tmp_path):
    out = tmp_path / "out"
    prepare(texts, out, **BYTES)
    before = hashes_of_files(out)
    (texts / "a.txt").write_text("Another text altogether.")
    (texts / "d.txt").write_text("More.")
    (texts / "b.txt").unlink()
    with pytest.raises(SettingsMismatchError) as refused:
        prepare(texts, out, **BYTES, dedup="lines", val_fraction=0)
    for line in (
        "dedup   'none' -> 'lines'",
        "val_fraction   0.1 -> 0",
        "input a.txt   24 bytes is new",
        "input d.txt   5 bytes is new",
        "input b.txt   84 bytes is gone",
        "input a.txt   changed after the dataset was made",
        "append=True adds to it",
    ):
        assert line in str(refused.value)
    assert hashes_of_files(out) == before


@pytest.fixture
def nothing_is_little(monkeypatch):
    monkeypatch.setattr(work_folder, "WORTH_KEEPING_BYTES", 0)


@pytest.mark.usefixtures("nothing_is_little")
def test_an_unfinished_one_of_other_settings_or_inputs(corpus, texts, small, tmp_path):
    out, tokenizer = tmp_path / "out", small[0]
    arguments = {"inputs": corpus, "out_dir": out, "unit_bytes": 2000, "workers": 1, **tokenizer}
    stop_in_the_middle(arguments)
    before = hashes_of_files(out)
    with pytest.raises(SettingsMismatchError) as refused:
        prepare(**{**arguments, "inputs": texts}, clean=True)
    for line in ("clean   False -> True", "input a.txt   is new", "input big.txt   is gone"):
        assert line in str(refused.value)
    assert hashes_of_files(out) == {**before, ".preparation/lock": None} or set(
        hashes_of_files(out)
    ) == set(before) - {".preparation/lock"}
    prepare(**{**arguments, "inputs": texts}, clean=True, overwrite=True)
    assert [source["name"] for source in manifest(out)["sources"]] == ["a.txt", "b.txt", "c.txt"]
    assert_nothing_stray(out)


def test_an_unfinished_one_of_which_little_was_done_gives_way(corpus, texts, small, tmp_path):
    out, tokenizer = tmp_path / "out", small[0]
    arguments = {"inputs": corpus, "out_dir": out, "unit_bytes": 2000, "workers": 1, **tokenizer}
    arguments["dedup"] = "lines"
    stop_in_the_middle(arguments, "lines")

    prepare(texts, out, **BYTES)

    prepare(texts, tmp_path / "fresh", **BYTES)
    assert hashes_of_files(out) == hashes_of_files(tmp_path / "fresh")
    assert_nothing_stray(out)


@pytest.mark.parametrize(("missing", "happens"), [(0, "it is refused"), (4096, "it gives way")])
def test_an_unfinished_one_of_64_mib_is_refused_and_of_less_gives_way(
    texts, tmp_path, missing, happens
):
    out = tmp_path / "out"
    with pytest.raises(StoppedHereError):
        prepare(texts, out, **BYTES, progress=StopAtFirstStage())
    work = out / ".preparation"
    here = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
    encoded = work / "units" / "0.0.tokens"
    encoded.parent.mkdir(exist_ok=True)
    encoded.touch()
    os.truncate(encoded, (64 << 20) - here - missing)  # a hole: no disk is used

    if happens == "it is refused":
        with pytest.raises(SettingsMismatchError, match="clean   False -> True"):
            prepare(texts, out, **BYTES, clean=True)
        assert encoded.stat().st_size == (64 << 20) - here
    else:
        prepare(texts, out, **BYTES, clean=True)
        assert manifest(out)["settings"]["clean"] is True


def test_a_mistyped_setting_can_be_corrected_in_the_same_folder(texts, tmp_path):
    """As after `--text_field bodi`: the text files were read before, the JSON lines were not."""
    (texts / "d.jsonl").write_text('{"body": "This is the text of a line."}\n' * 3)
    said = []

    class Notes(Progress):
        def say(self, text):
            said.append(text)

    with pytest.raises(TokenmillError, match="no field 'bodi'"):
        prepare(texts, tmp_path / "out", **BYTES, text_field="bodi")
    prepare(texts, tmp_path / "out", **BYTES, text_field="body", progress=Notes())

    assert [line for line in said if line.startswith("starting over: ")]
    prepare(texts, tmp_path / "fresh", **BYTES, text_field="body")
    assert hashes_of_files(tmp_path / "out") == hashes_of_files(tmp_path / "fresh")
    assert_nothing_stray(tmp_path / "out")


def test_what_is_added_can_be_corrected_and_the_dataset_is_not_touched(texts, tmp_path):
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    for folder in (out, fresh):
        prepare(texts, folder, **BYTES)
    (tmp_path / "b.csv").write_text("body\nA text that is new.\n")

    with pytest.raises(StoppedHereError):
        prepare(tmp_path / "b.csv", out, append=True, text_field="b", progress=StopAtFirstStage())
    assert (out / ".preparation" / "plan.json").exists()
    for folder in (out, fresh):
        prepare(tmp_path / "b.csv", folder, append=True, text_field="body")

    assert hashes_of_files(out) == hashes_of_files(fresh)


@pytest.mark.parametrize("text", [b"another text\n", b"a text\n"])
def test_another_standard_input_gives_way_where_little_was_done(tmp_path, monkeypatch, text):
    stopped = {"progress": StopAtFirstStage()}
    for given, options in ((b"a text\n", stopped), (text, {})):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(StoppedHereError) if options else nullcontext():
            prepare("-", tmp_path / "out", **BYTES, **options)

    data = tokenmill.open(tmp_path / "out", "all")
    assert data.decode(data[: len(data)]).encode().startswith(text.rstrip())


class StoppedHereError(Exception):
    """A preparation was stopped when its plan was written."""


class StopAtFirstStage(Progress):
    def follow(self, what, results, **options):
        raise StoppedHereError


@pytest.mark.usefixtures("nothing_is_little")
def test_a_tokenizer_file_that_changed(corpus, small, tmp_path):
    out, tokenizer = tmp_path / "out", dict(small[0])
    lines = Path(tokenizer["tokenizer"]).read_bytes().splitlines()
    tokenizer["tokenizer"] = str(tmp_path / "mine.tiktoken")
    (tmp_path / "mine.tiktoken").write_bytes(b"\n".join(lines))
    arguments = {"inputs": corpus, "out_dir": out, "unit_bytes": 2000, "workers": 1, **tokenizer}
    stop_in_the_middle(arguments)
    (tmp_path / "mine.tiktoken").write_bytes(b"\n".join(lines[:-1]))
    with pytest.raises(
        SettingsMismatchError, match=r"tokenizer .*mine\.tiktoken   [0-9a-f]{32} ->"
    ):
        prepare(**arguments)


def test_bad_input_may_be_dealt_with_later(tmp_path):
    """The hint of the error can be followed: what is done already held no bad input."""
    texts, out = tmp_path / "texts", tmp_path / "out"
    texts.mkdir()
    (texts / "a.txt").write_bytes(b"good text\n")
    (texts / "b.txt").write_bytes(b"bad \xff text\n")
    with pytest.raises(TokenmillError, match=r"b\.txt at byte 4"):
        prepare(texts, out, **BYTES)
    summary = prepare(texts, out, **BYTES, on_bad_input="skip")
    assert summary.dropped == {"not UTF-8": 1}
    assert_nothing_stray(out)


@pytest.mark.usefixtures("nothing_is_little")
def test_bad_input_may_be_fixed(tmp_path):
    """Then the inputs are others than planned, and the same command starts again."""
    texts, out, said = tmp_path / "texts", tmp_path / "out", []

    class Notes(Progress):
        def say(self, text):
            said.append(text)

    texts.mkdir()
    for name in ("a.txt", "units"):  # also the name of a folder of the workspace
        (texts / name).write_bytes(b"good text\n")
    (texts / "b.txt").write_bytes(b"bad \xff text\n")
    given = {"inputs": [texts, texts / "units"], "out_dir": out, "unit_bytes": 4, **BYTES}
    with pytest.raises(TokenmillError, match=r"b\.txt at byte 4") as refused:
        prepare(**given, dedup="none")
    assert "when the file is fixed, the same command starts again" in refused.value.hint
    (texts / "b.txt").write_bytes(b"a text that is good now\n")
    with pytest.raises(SettingsMismatchError, match="dedup   'none' -> 'documents'"):
        prepare(**given, dedup="documents")
    prepare(**given, dedup="none", progress=Notes())
    assert [line.partition(":")[0] for line in said[1:]] == ["starting over"]
    prepare(**{**given, "out_dir": tmp_path / "fresh"}, dedup="none")
    assert hashes_of_files(out) == hashes_of_files(tmp_path / "fresh")
    assert_nothing_stray(out)


def test_a_second_writer(corpus, small, tmp_path):
    out, tokenizer = tmp_path / "out", small[0]
    arguments = {"inputs": corpus, "out_dir": out, "unit_bytes": 1000, "workers": 1, **tokenizer}
    process = start_and_hold(arguments)
    with pytest.raises(LockedError, match=f"process {process.pid} on {socket.gethostname()}"):
        prepare(**arguments)
    with pytest.raises(LockedError):
        prepare(**arguments, overwrite=True)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0  # the one that was first is not disturbed
    assert_nothing_stray(out)


def test_a_preparation_of_another_version(corpus, small, tmp_path):
    arguments = {"inputs": corpus, "out_dir": tmp_path / "out", "unit_bytes": 1000, **small[0]}
    stop_in_the_middle(arguments)
    plan = tmp_path / "out" / ".preparation" / "plan.json"
    plan.write_bytes(plan.read_bytes().replace(b'"version": 1', b'"version": 2'))
    with pytest.raises(TokenmillError, match="another version of tokenmill started"):
        prepare(**arguments)


def test_a_lock_of_another_machine(texts, tmp_path):
    out = tmp_path / "out"
    (out / ".preparation").mkdir(parents=True)
    lock = out / ".preparation" / "lock"
    lock.write_text(json.dumps({"host": "elsewhere", "pid": 1, "started": "1"}))
    with pytest.raises(LockedError, match="break_lock=True"):
        prepare(texts, out, **BYTES)
    prepare(texts, out, **BYTES, break_lock=True)
    assert_nothing_stray(out)


@pytest.mark.parametrize("left", [b"", b"[]", b'{"host": "%s", "pid": 999999999, "started": "5"}'])
def test_a_lock_that_nobody_holds(texts, tmp_path, left):
    out = tmp_path / "out"
    (out / ".preparation").mkdir(parents=True)
    left = left.replace(b"%s", socket.gethostname().encode())
    (out / ".preparation" / "lock").write_bytes(left)
    prepare(texts, out, **BYTES)
    assert_nothing_stray(out)


def test_shards_are_on_the_disk_before_the_manifest_has_its_name(texts, tmp_path, synced):
    prepare(texts, tmp_path / "out", **BYTES, tokens_per_shard=50)

    shards = {str(path) for path in (tmp_path / "out").rglob("*.bin")}
    before = [place for place, path in enumerate(synced) if path == str(tmp_path / "out")]
    assert len(shards) > 3
    assert shards <= set(synced[: before[-1]])


def test_a_folder_of_something_else(texts, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("important")
    with pytest.raises(SettingsMismatchError, match=r"thesis\.tex"):
        prepare(texts, out, **BYTES)
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_way(texts, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ValueError, match="is a file"):
        prepare(texts, tmp_path / "out", **BYTES)


def test_a_place_that_cannot_be_written(texts):
    with pytest.raises(TokenmillError, match="cannot write to"):
        prepare(texts, "/proc/nowhere/out", **BYTES)


@pytest.mark.parametrize("settings", [{"dedup": "words"}, {"val_fraction": 1}, {"dtype": "int8"}])
def test_wrong_settings_touch_nothing(texts, tmp_path, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        prepare(texts, tmp_path / "new" / "out", **BYTES, **settings)
    assert not (tmp_path / "new" / "out").exists()


@pytest.mark.parametrize(
    ("function", "name", "meant"),
    [
        (prepare, "tokeniser", "; did you mean 'tokenizer'?"),
        (prepare, "worker", "; did you mean 'workers'?"),
        (prepare, "colour", ""),
        (jobs.plan, "seperator", "; did you mean 'separator'?"),
        (estimate, "text_fields", "; did you mean 'text_field'?"),
    ],
)
def test_arguments_that_do_not_exist(texts, tmp_path, function, name, meant):
    where = () if function is estimate else (tmp_path / "out",)
    with pytest.raises(TypeError) as refused:
        function(texts, *where, **{name: 1})
    assert str(refused.value) == f"{function.__name__}() has no argument {name!r}{meant}"
    assert not (tmp_path / "out").exists()


def test_an_input_that_is_not_there(tmp_path):
    with pytest.raises(TokenmillError, match="no such file"):
        prepare(tmp_path / "nothing.txt", tmp_path / "out", **BYTES)
    assert not (tmp_path / "out").exists()


def test_an_input_with_a_time_in_the_future_is_not_one_that_changed(texts, tmp_path):
    """Which only the kernel knows: it keeps the time at which the file was last written."""
    out = tmp_path / "out"
    tomorrow = time.time() + 86_400
    os.utime(texts / "a.txt", (tomorrow, tomorrow))
    prepare(texts, out, **BYTES)

    assert prepare(texts, out, **BYTES).already_there

    os.utime(out / "dataset_metadata.json", (1e9, 1e9))  # made long before the text is written
    (texts / "a.txt").write_text("That was the text of file a.\n" * 3)
    os.utime(texts / "a.txt", (tomorrow, tomorrow))
    with pytest.raises(SettingsMismatchError, match=r"a\.txt   changed after the dataset"):
        prepare(texts, out, **BYTES)


def test_a_link_where_the_work_is_done_is_refused(texts, tmp_path):
    """What is in that folder is removed when the work is done: it must not be that of others."""
    precious = tmp_path / "home" / "photos"
    precious.mkdir(parents=True)
    (precious / "one.jpg").write_text("not ours")
    out = tmp_path / "out"
    prepare(texts / "a.txt", out, **BYTES)
    (out / ".preparation").symlink_to(precious.parent)
    new = tmp_path / ".out.tokenmill-new"

    for attempt in (
        lambda: prepare(texts / "b.txt", out, append=True, **BYTES),
        lambda: prepare(texts, out, overwrite=True, **BYTES),
        lambda: jobs.finish(out),
    ):
        with pytest.raises(PrepareError, match=r"\.preparation is a link to \S*home"):
            attempt()
    (out / ".preparation").unlink()
    new.symlink_to(precious.parent)
    with pytest.raises(PrepareError, match=r"tokenmill-new is a link to"):
        prepare(texts, out, overwrite=True, **BYTES)

    assert [path.name for path in tmp_path.glob("home/**/*")] == ["photos", "one.jpg"]
    new.unlink()
    prepare(texts, out, overwrite=True, **BYTES)


def test_overwrite(texts, corpus, tmp_path):
    out = tmp_path / "out"
    prepare(texts, out, **BYTES)
    (out / "notes.txt").write_text("of the old one")
    with open(out / "train" / "shard_00000.bin", "rb") as reader:
        first = reader.read(16)
        prepare(corpus, out, **BYTES, overwrite=True)
        reader.seek(0)
        assert reader.read(16) == first  # open readers keep their files
    prepare(corpus, tmp_path / "fresh", **BYTES)
    assert hashes_of_files(out) == hashes_of_files(tmp_path / "fresh")
    assert_nothing_stray(out)


@needs_strace
def test_overwrite_killed_at_its_renames(texts, corpus, tmp_path):
    """The old dataset or the new one is there after the next command, never neither."""
    fresh, was_between = tmp_path / "fresh", False
    prepare(corpus, fresh, **BYTES, dedup="none")
    for number in (1, 2):  # of the renames from or to the folder itself
        out = tmp_path / f"out{number}"
        prepare(texts, out, **BYTES)
        wanted = {"inputs": corpus, "out_dir": out, "dedup": "none", "overwrite": True, **BYTES}
        killing = injecting(f"signal=SIGKILL:when={number}", RENAMES)
        killing += ["-P", str(out), "-P", str(tmp_path / f".{out.name}.tokenmill-new")]
        assert run(wanted, killing)[0] == -signal.SIGKILL
        was_between |= not out.exists()
        assert run(wanted) == (0, "")
        assert hashes_of_files(out) == hashes_of_files(fresh)
        assert_nothing_stray(out)
    assert was_between


def test_what_a_swap_cut_short_left_is_finished_by_any_command(texts, corpus, tmp_path):
    out = tmp_path / "out"
    prepare(texts, out, **BYTES)
    prepare(corpus, tmp_path / "fresh", **BYTES)
    os.rename(out, tmp_path / ".out.tokenmill-old")
    os.rename(tmp_path / "fresh", tmp_path / ".out.tokenmill-new")
    again = prepare(corpus, out, **BYTES)
    assert again.notes == ["it was complete already"]
    assert_nothing_stray(out)


def test_append_needs_a_dataset(texts, tmp_path):
    with pytest.raises(NotADatasetError):
        prepare(texts, tmp_path / "out", **BYTES, append=True)
    assert not (tmp_path / "out").exists()


def manifest(out):
    return json.loads((out / "dataset_metadata.json").read_bytes())


def test_nothing_to_write(tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for name in "ab":
        (texts / f"{name}.txt").write_text(" \n\n")
    (texts / "empty.txt").touch()
    with pytest.raises(
        TokenmillError, match=r"nothing is left to write of 3 documents \(dropped: 3 empty\)"
    ):
        prepare(texts, tmp_path / "out", **BYTES, clean=True)
    assert not (tmp_path / "out").exists()
