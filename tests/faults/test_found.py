"""What the long runs found, each as a small test of its own."""

import json
import os
import socket

import numpy as np
import pytest
import torch
from pages.conftest import serving

import tokenmill
from tokenmill.errors import FormatError, OrderMismatchError, PrepareError
from tokenmill.preparation.workspace.work_folder import WorkFolder
from tokenmill.reading import length_index
from tokenmill.tokens.load_tokenizer import from_state, load
from tokenmill.train import checkpoint
from tokenmill.train.run_record import points

SETTINGS = {"tokenizer": "bytes", "workers": 1}


def rank_lines():
    whole = tokenmill.__path__[0] + "/tokens/data/gpt2.tiktoken"
    with open(whole, "rb") as file:
        return file.read().splitlines()[:300]


def test_the_work_of_a_pretokenization_killed_after_its_array_was_in_place_is_removed(tmp_path):
    (tmp_path / "a.txt").write_text("some text")
    tokenmill.pretokenize(tmp_path / "a.txt", tokenizer="bytes")
    work = tmp_path / ".a.npy.work" / ".preparation"
    work.mkdir(parents=True)
    (work / "boot").write_text("x")

    [kept] = tokenmill.pretokenize(tmp_path / "a.txt", tokenizer="bytes")

    assert kept.kept
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"a.txt", "a.npy", "a.tokenizer_state.json"}


def test_a_run_removes_what_a_killed_one_left_half_written(tmp_path):
    for step in (2, 4, 6):
        checkpoint.save(tmp_path, step=step, model={}, optimizer={}, state={}, keep=9)
    leftovers = [tmp_path / ".config.json.12-0123abcd.tmp", tmp_path / ".mine.tmp"]
    for path in leftovers:
        path.write_text("")

    checkpoint.remove_leftovers(tmp_path, keep=2)

    assert [path.exists() for path in leftovers] == [False, True]
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["latest", "step_00000004", "step_00000006"]


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b"\xff", b'{"version": 1}', b"[" * 100_000])
def test_a_damaged_state_of_a_checkpoint_is_refused(tmp_path, damage):
    folder = checkpoint.save(
        tmp_path, step=2, model={"w": torch.ones(2)}, optimizer={}, state={}, keep=2
    )
    (folder / "state.json").write_bytes(damage)

    with pytest.raises(FormatError, match=r"state\.json"):
        checkpoint.load(folder)


@pytest.mark.parametrize("line", ["", "{", "[]", '{"loss": 1}', '{"step": "1"}'])
def test_a_damaged_row_of_the_metrics_is_named(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 2.5}\n' + line + "\n")

    with pytest.raises(FormatError, match=r"metrics\.jsonl, line 2"):
        points(path, "loss")


@pytest.mark.parametrize("number", [2**31 - 1, 2**40])
def test_an_id_that_no_file_justifies_is_refused_before_a_table_of_that_size_is_made(
    tmp_path, number
):
    content = {"model": {"type": "BPE", "vocab": {"a": 0, "b": number}, "merges": []}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match="ids from"):
        load(str(tmp_path / "tokenizer.json"), end_of_text=0)

    ranks = [*rank_lines(), b"IHRoZSBtaWxs %d" % number]
    (tmp_path / "a.tiktoken").write_bytes(b"\n".join(ranks))
    with pytest.raises(FormatError, match="ids from"):
        load(str(tmp_path / "a.tiktoken"), pattern="gpt2", end_of_text=301)


def test_a_token_with_two_ranks_is_refused(tmp_path):
    token = rank_lines()[280].split()[0]
    (tmp_path / "a.tiktoken").write_bytes(b"\n".join([*rank_lines(), token + b" 300"]))

    with pytest.raises(FormatError, match="comes twice"):
        load(str(tmp_path / "a.tiktoken"), pattern="gpt2", end_of_text=301)


def test_no_message_carries_what_changes_a_terminal():
    state = {**load("bytes").state(), "fingerprint": "\x1b[31m"}
    loader = tokenmill.BatchLoader(tokenmill.from_array(np.arange(99)), batch_size=1, block_size=4)

    with pytest.raises(tokenmill.errors.TokenizerMismatchError) as caught:
        from_state(state)
    assert "\x1b" not in str(caught.value)
    with pytest.raises(OrderMismatchError) as caught:
        loader.load_state_dict({**loader.state_dict(), "order_fingerprint": "\x1b[31m"})
    assert "\x1b" not in str(caught.value)


class TestStoppedPreparation:
    @pytest.fixture
    def workspace(self, tmp_path):
        workspace = WorkFolder(tmp_path / "out")
        workspace.leave_receipt("units", "0", [], {"counts": {"documents_in": 17}})
        return workspace

    def test_a_receipt_is_read_as_it_was_left(self, workspace):
        assert workspace.receipt("units", "0") == {"counts": {"documents_in": 17}, "files": {}}

    @pytest.mark.parametrize(("old", "new"), [(b"17", b"16"), (b"}", b""), (b"{", b"[")])
    def test_a_receipt_with_a_changed_byte_counts_as_none(self, workspace, old, new):
        (path,) = (workspace.root / "receipts" / "units").iterdir()
        path.write_bytes(path.read_bytes().replace(old, new, 1))

        assert workspace.receipt("units", "0") is None

    @pytest.mark.parametrize("damage", [b"", b"\0" * 50, b"[]", b'{"version": 1}'])
    def test_a_damaged_plan_is_named_with_the_way_out(self, tmp_path, damage):
        (tmp_path / "a.txt").write_text("some text")
        work = tmp_path / "out" / ".preparation"
        work.mkdir(parents=True)
        (work / "plan.json").write_bytes(damage)

        with pytest.raises(PrepareError) as caught:
            tokenmill.prepare(tmp_path / "a.txt", tmp_path / "out", **SETTINGS)
        assert "remove" in caught.value.hint


def test_a_page_that_is_not_there_links_to_no_address_of_others(tmp_path):
    (tmp_path / "a.txt").write_text("some text\n" * 50)
    tokenmill.prepare(tmp_path / "a.txt", tmp_path / "out", dedup="none", **SETTINGS)

    with serving(tmp_path / "out") as client:
        for path in ("/file:///etc/passwd", "/javascript:alert(1)"):
            page = client.page(path, status=404)
            assert not [link for link in page.links if ":" in link.split("?")[0]]


def test_what_a_conversion_left_that_was_killed_when_its_result_was_in_place_is_removed(tmp_path):
    tokenmill.convert(np_file(tmp_path), tmp_path / "new", to="nanogpt")
    left = tmp_path / ".new.convert"
    left.mkdir()
    dead = {"host": socket.gethostname(), "pid": 2**22 + 1, "started": "1"}
    (left / "lock").write_text(json.dumps(dead))
    (left / ".lock.12-0123abcd.tmp").write_text("")

    with pytest.raises(FormatError, match="exists already"):
        tokenmill.convert(np_file(tmp_path), tmp_path / "new", to="nanogpt")

    assert not left.exists()


def np_file(folder):
    np.save(folder / "a.npy", np.arange(200, dtype=np.uint16))
    return folder / "a.npy"


def test_a_state_of_a_checkpoint_with_another_number_is_refused(tmp_path):
    folder = checkpoint.save(tmp_path, step=10, model={}, optimizer={}, state={}, keep=2)
    path = folder / "state.json"
    path.write_text(path.read_text().replace('"step": 10', '"step": 90'))

    with pytest.raises(FormatError, match=r"state\.json is not the file that was saved"):
        checkpoint.load(folder)


def test_a_disk_that_is_full_when_a_checkpoint_is_saved_is_an_error_of_ours(tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("[enforce fail] PytorchStreamWriter failed writing file\nmore")

    monkeypatch.setattr(torch, "save", fails)
    with pytest.raises(tokenmill.errors.TokenmillError, match="failed writing file") as caught:
        checkpoint.save(tmp_path, step=2, model={}, optimizer={}, state={}, keep=2)
    assert "resume=True" in caught.value.hint


def test_the_work_of_a_tokenizer_killed_when_its_files_were_in_place_is_removed(tmp_path):
    (tmp_path / "a.txt").write_text("some text of the mill " * 9)
    settings = {"vocab_size": 262, "workers": 1}
    tokenmill.train_tokenizer(tmp_path / "a.txt", tmp_path / "new", **settings)
    work = tmp_path / "new" / ".preparation"
    work.mkdir()
    (work / "boot").write_text("x")

    assert tokenmill.train_tokenizer(tmp_path / "a.txt", tmp_path / "new", **settings).already_there
    assert not work.exists()


@pytest.mark.parametrize("name", ["version", "key", "fingerprint", "bytes"])
def test_an_index_of_documents_whose_header_lacks_a_field_is_refused(tmp_path, monkeypatch, name):
    index = made_index(tmp_path, monkeypatch)
    index.write_bytes(
        index.read_bytes().replace(f'"{name}"'.encode(), b'"%s"' % (b"x" * len(name)))
    )

    with pytest.raises(FormatError, match="not a whole index"):
        made_index(tmp_path, monkeypatch)


def test_what_a_killed_builder_of_an_index_left_is_removed_a_day_later(tmp_path, monkeypatch):
    index = made_index(tmp_path, monkeypatch)
    old, new = (index.with_name(f".{index.name}.{n}-0123abcd.tmp") for n in (1, 2))
    for path in (old, new):
        path.write_text("")
    os.utime(old, (0, 0))
    index.unlink()

    made_index(tmp_path, monkeypatch)

    assert (old.exists(), new.exists()) == (False, True)


def made_index(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr(length_index, "IN_MEMORY", 0)
    ids = np.tile(np.arange(10, dtype=np.uint16), 20)
    data = tokenmill.from_array(ids, end_of_text=0)
    next(tokenmill.BatchLoader(data, batch_size=1, block_size=16, rows="packed"))
    [path] = folder.rglob("*.documents")
    return path
