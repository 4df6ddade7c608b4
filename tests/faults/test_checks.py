"""What is checked after a fault can fail: each check is given what it must notice."""

import argparse
import json
import os

import pytest
from faults import __main__ as campaign
from faults.case import Case
from faults.forks import Forks
from faults.lost_writes import record, unsynced
from faults.operations import OPERATIONS
from faults.test_short_runs import run
from system_faults import needs_strace

SHARD = "out/train/shard_00000.bin"
MANIFEST = "out/dataset_metadata.json"


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A preparation where nothing was before."""
    with Forks(["small prepare"]) as forks:
        yield Case(OPERATIONS["small prepare"], tmp_path_factory.mktemp("checks"), forks)


def show(case, files):
    case.fresh()
    for name, data in files.items():
        (case.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (case.folder / name).write_bytes(data)


def test_nothing_and_everything_may_be_visible(case):
    show(case, {})
    assert case.wrongly_visible() == []
    show(case, case.after)
    assert case.wrongly_visible() == []
    show(case, {SHARD: case.after[SHARD]})  # whole, and no manifest yet
    assert case.wrongly_visible() == []


@pytest.mark.parametrize("half", [True, False])
def test_a_rubbish_manifest_with_half_a_shard_is_noticed(case, half):
    shard = case.after[SHARD]
    show(case, {MANIFEST: b"{}", SHARD: shard[: len(shard) // 2] if half else shard})

    assert any(MANIFEST in wrong for wrong in case.wrongly_visible())
    assert any(MANIFEST in wrong for wrong in case.wrongly_visible(after_a_loss=True))


def test_a_right_manifest_without_its_files_is_noticed(case):
    show(case, {MANIFEST: case.after[MANIFEST]})

    assert case.wrongly_visible(after_a_loss=True)


@pytest.mark.parametrize("data", [b"", b"half of it"])
def test_a_file_that_is_written_in_place_is_noticed_before_there_is_a_manifest(case, data):
    show(case, {SHARD: data})

    assert case.wrongly_visible() == [f"{SHARD} is visible with other bytes"]


def test_a_file_that_nobody_should_see_is_noticed(case):
    show(case, {"out/train/shard_00009.bin": b"12"})

    assert case.wrongly_visible()


@needs_strace
@pytest.mark.parametrize("call", ["fsync of a file", "fsync of a folder"])
def test_a_sync_that_is_left_out_is_noticed(case, call):
    calls = record(case)
    assert unsynced(case, calls) == []
    syncs = [call for call in calls if call.name == "fsync"]
    kind = {False: [], True: []}
    for each in syncs:
        kind[os.path.isdir(each.descriptors[0][1])].append(each)

    for left_out in kind[call.endswith("folder")][-1:]:
        assert unsynced(case, [each for each in calls if each is not left_out])


WHOLE = {
    name: {"commit": "a" * 40, "totals": {counted: least}, "failures": []}
    for name, (counted, least, _) in campaign.COUNTED.items()
}


class TestResults:
    def test_all_parts_are_counted(self):
        assert list(campaign.COUNTED) == list(campaign.PARTS)
        assert campaign.not_one_run(WHOLE) == []

    @pytest.mark.parametrize(
        "commit", ["b" * 40, "a" * 40 + " and changes", "unknown", f"{'a' * 40} and {'b' * 40}"]
    )
    def test_a_part_of_another_commit_is_said(self, commit):
        results = {**WHOLE, "flips": {**WHOLE["flips"], "commit": commit}}
        assert "not all of one commit" in campaign.not_one_run(results)[0]

    def test_a_part_without_a_commit_is_said(self):
        results = {**WHOLE, "flips": {"totals": {"noticed": 28_000}}}
        assert "not all of one commit" in campaign.not_one_run(results)[0]

    def test_parts_that_are_missing_or_small_are_said(self):
        few = {**WHOLE["kills"], "totals": {"kills": 999}}
        results = {name: part for name, part in WHOLE.items() if name != "fuzz"}
        said = campaign.not_one_run({**results, "kills": few})
        assert said[0] == "fuzz is missing"
        assert "kills has 999 kills; at least 1,000 are wanted" in said

    def test_a_part_of_a_part_is_not_added_at_another_commit(self, tmp_path, monkeypatch):
        monkeypatch.setattr(campaign, "commit_now", lambda: "b" * 40)
        (tmp_path / "r.json").write_text(json.dumps(WHOLE))
        given = argparse.Namespace(results=tmp_path / "r.json", readers=["csv"], operations=None)
        assert "cannot be added" in campaign._refusal(given, ["fuzz"])
        monkeypatch.setattr(campaign, "commit_now", lambda: "a" * 40 + " and changes")
        assert "commit first" in campaign._refusal(given, ["fuzz"])


def test_stores_without_a_server_fail_and_name_it(tmp_path):
    """A package of that name that cannot be imported is in the way."""
    (tmp_path / "moto.py").write_text("raise ModuleNotFoundError('not here')")
    done = run("--short", "--only", "stores", before=[str(tmp_path)])

    assert done.returncode == 1
    assert "skipped: moto: moto is not installed" in done.stdout
    assert "nothing was tried" in done.stderr


def test_what_is_skipped_is_in_the_results():
    from faults.tally import Tally

    tally = Tally(1)
    tally.skip("azurite", "it is not installed")
    assert tally.to_json()["skipped"] == {"azurite": "it is not installed"}
