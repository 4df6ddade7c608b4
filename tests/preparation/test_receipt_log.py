"""Receipts survive kills and damage: a line is there whole, or its task is run again."""

import os
import secrets
import signal
import subprocess
import sys

import flat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from preparation.runs import done_tasks

from tokenmill.executors.numbered import JobPart
from tokenmill.preparation import jobs
from tokenmill.preparation.workspace import receipt_log
from tokenmill.preparation.workspace.receipt_log import (
    ReceiptLogs,
    add_receipt,
)
from tokenmill.preparation.workspace.work_folder import WorkFolder


def begin_new_log():
    """Write as another process would, to a log of its own."""
    receipt_log._PROCESS = secrets.token_hex(4)


SMALL = {"dedup": "none", "unit_bytes": 8000}
NAMES = st.one_of(
    st.integers(0, 3000).map(str),
    st.integers(0, 9).map("search-{}-of-10".format),
    st.sampled_from(["merged-0", "all", "007"]),
)


@given(st.lists(st.tuples(NAMES, st.integers(0, 99), st.booleans())))
@settings(max_examples=60, deadline=None)
def test_logs_are_a_dictionary(tmp_path_factory, added):
    """Each process has a log of its own; here a new one begins now and then."""
    folder = tmp_path_factory.mktemp("logs") / "stage"
    logs, expected = ReceiptLogs(folder), {}
    for name, value, begins in added:
        if begins:
            begin_new_log()
        if name not in expected:  # a task that ran twice left the same
            expected[name] = {"value": value}
        add_receipt(folder, name, expected[name], durable=False)
        assert logs.get(name) == expected[name]
    again = ReceiptLogs(folder)

    assert dict(again.items()) == dict(logs.items()) == expected
    assert list(again.in_order(list(expected))) == list(expected.values())
    assert again.read(["not there", *expected]) == expected


def test_a_line_that_was_cut_counts_as_none_at_every_length(tmp_path):
    add_receipt(tmp_path, "1", {"a": 1}, durable=True)
    add_receipt(tmp_path, "2", {"b": "x" * 30}, durable=True)
    (log,) = tmp_path.iterdir()
    whole = log.read_bytes()
    first = whole.index(b"\n", 1) + 1
    for length in range(first, len(whole) - 1):
        log.write_bytes(whole[:length])
        assert dict(ReceiptLogs(tmp_path).items()) == {"1": {"a": 1}}
        add_receipt(tmp_path, "3", {}, durable=False)  # to the same log, after the fragment
        assert set(dict(ReceiptLogs(tmp_path).items())) == {"1", "3"}


def test_a_flipped_bit_anywhere_loses_its_line_only(tmp_path):
    for name in "123":
        add_receipt(tmp_path, name, {"name": name}, durable=False)
    (log,) = tmp_path.iterdir()
    whole = log.read_bytes()
    for at in range(len(whole)):
        log.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        found = dict(ReceiptLogs(tmp_path).items())
        assert len(found) >= 2
        assert all(receipt == {"name": name} for name, receipt in found.items())


def test_what_others_add_is_seen_and_what_is_removed_is_gone(tmp_path):
    logs = ReceiptLogs(tmp_path)
    assert logs.get("0") is None
    code = (
        "import sys; from pathlib import Path\n"
        "from tokenmill.preparation.workspace.receipt_log import add_receipt\n"
        "for n in sys.argv[2:]: add_receipt(Path(sys.argv[1]), n, {'n': n}, durable=False)"
    )
    for some in (["0", "1"], ["2", "named"]):
        subprocess.run([sys.executable, "-c", code, str(tmp_path), *some], check=True)
        assert [logs.get(name) for name in some] == [{"n": name} for name in some]
    assert len(list(tmp_path.iterdir())) == 2

    logs.remove({"1", "named"})

    assert len(list(tmp_path.iterdir())) == 1
    for reader in (logs, ReceiptLogs(tmp_path)):
        assert dict(reader.items()) == {"0": {"n": "0"}, "2": {"n": "2"}}
        assert reader.get("1") is None


def test_a_full_disk_is_an_error_and_leaves_no_half_receipt(tmp_path, monkeypatch):
    add_receipt(tmp_path, "0", {}, durable=False)
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:9]))
    with pytest.raises(OSError, match="No space left"):
        add_receipt(tmp_path, "1", {}, durable=False)
    monkeypatch.undo()
    add_receipt(tmp_path, "2", {}, durable=False)

    assert set(dict(ReceiptLogs(tmp_path).items())) == {"0", "2"}


def test_many_are_read_in_order_without_being_in_memory_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(receipt_log, "AT_ONCE", 7)
    order = [str(n * 37 % 100) for n in range(100)]
    for at, name in enumerate(order):
        if at % 9 == 0:
            begin_new_log()
        add_receipt(tmp_path, name, {"n": name, "long": "x" * (at * 50)}, durable=False)
    logs = ReceiptLogs(tmp_path)
    logs.refresh()
    names = [str(n) for n in range(100)]

    assert [receipt["n"] for receipt in logs.in_order(names)] == names


def test_a_part_makes_again_what_is_gone_and_looks_only_at_its_own_files(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"line {n} of the text\n" for n in range(2000)))
    out = tmp_path / "out"
    flat.plan(tmp_path / "a.txt", out, tokenizer="bytes", document_is="line", **SMALL)
    jobs.work(out, JobPart(0, 1))
    units = out / ".preparation" / "units"
    before = len(done_tasks(out / ".preparation", "units"))
    (units / "2.0.tokens").unlink()
    os.truncate(units / "3.0.rows", 1)

    assert jobs.status(out).complete  # by the receipts alone
    jobs.work(out, JobPart(0, 2))

    assert (units / "2.0.tokens").exists()
    assert (units / "3.0.rows").stat().st_size == 1
    jobs.finish(out, workers=1)
    assert before == 6
    assert not (out / ".preparation").exists()


def test_killed_while_receipts_are_written(tmp_path):
    """Every line but perhaps the last one is whole, whenever the process is killed."""
    code = (
        "import itertools, sys; from pathlib import Path\n"
        "from tokenmill.preparation.workspace.receipt_log import add_receipt\n"
        "for n in itertools.count():\n"
        "    add_receipt(Path(sys.argv[1]), str(n), {'n': n, 'x': 'x' * 5000}, durable=False)\n"
        "    print(n, flush=True)"
    )
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        while int(process.stdout.readline()) < 40:
            pass
        process.send_signal(signal.SIGKILL)
        said = [*map(int, process.communicate()[0].split())]

        found = dict(ReceiptLogs(tmp_path).items())
        assert set(found) >= {str(n) for n in range(max(said, default=40) + 1)}
        assert all(receipt["n"] == int(name) for name, receipt in found.items())


def test_a_workspace_that_was_cleared_knows_nothing_of_before(tmp_path):
    workspace = WorkFolder(tmp_path)
    workspace.leave_receipt("units", "0", [], {"n": 1})
    assert workspace.receipt("units", "0") == {"n": 1, "files": {}}

    workspace.clear()

    assert workspace.receipt("units", "0") is None
    workspace.leave_receipt("units", "1", [], {"n": 2})
    assert workspace.receipt("units", "1") == {"n": 2, "files": {}}
    assert workspace.receipt("units", "0") is None
