"""A checkpoint is complete or not there, and loading one runs no code."""

import json
import os
import pickle
import random
import select
import shutil
import signal
from contextlib import suppress

import pytest
import torch

from tokenmill.errors import CorruptShardError, FormatError, UnsupportedVersionError
from tokenmill.train import checkpoint
from tokenmill.train.checkpoint import latest


def save(run_dir, step, keep=2):
    return checkpoint.save(
        run_dir,
        step=step,
        model={"w": torch.full((3,), float(step))},
        optimizer={"state": {}, "param_groups": [{"lr": 0.1}]},
        state={"loader": {"position": step}},
        keep=keep,
    )


def test_what_was_saved_comes_back(tmp_path):
    save(tmp_path, 7)

    read = checkpoint.load(latest(tmp_path))

    assert read.step == 7
    assert read.state["loader"] == {"position": 7}
    assert torch.equal(read.model["w"], torch.full((3,), 7.0))
    assert read.optimizer["param_groups"] == [{"lr": 0.1}]


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path, synced):
    """Each of its files, then their folder, then the folder of checkpoints, then `latest`."""
    save(tmp_path, 7)

    *inside, _, _ = names = [os.path.basename(path) for path in synced[1:]]
    *files, folder, name = inside
    assert {*files} == {"model.pt", "optimizer.pt", "state.json"}
    assert folder.startswith(".step_00000007.")
    assert name == "checkpoints"
    assert names[-2].startswith(".latest.")
    assert names[-1] == "checkpoints"


def test_a_run_without_checkpoints_has_no_latest(tmp_path):
    assert latest(tmp_path) is None


def test_only_the_newest_are_kept(tmp_path):
    for step in (1, 2, 3, 10):
        save(tmp_path, step, keep=2)

    kept = sorted(p.name for p in (tmp_path / "checkpoints").glob("step_*"))
    assert kept == ["step_00000003", "step_00000010"]


def test_a_half_written_checkpoint_is_never_read_and_is_cleared_away(tmp_path):
    save(tmp_path, 5)
    left = tmp_path / "checkpoints" / ".step_00000003.99999-0a1b2c3d.tmp"
    left.mkdir()
    (left / "model.pt").write_bytes(b"half of it")
    unnamed = tmp_path / "checkpoints" / "step_00000006"  # renamed, but `latest` never moved
    unnamed.mkdir()

    assert latest(tmp_path).name == "step_00000005"
    save(tmp_path, 6)

    assert checkpoint.load(latest(tmp_path)).step == 6
    assert not left.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_writer_killed_at_any_moment_leaves_whole_checkpoints(tmp_path):
    """A child saves without pause and is killed at a random moment, again and again."""
    draw, newest = random.Random(), 0
    for _ in range(12):
        child = os.fork()
        if child == 0:
            try:
                for step in range(newest + 1, newest + 10_000):
                    save(tmp_path, step)
            finally:
                os._exit(1)
        select.select([], [], [], draw.uniform(0.02, 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

        for name in names(tmp_path):
            checkpoint.load(tmp_path / "checkpoints" / name)
        folder = latest(tmp_path)
        if folder is not None:
            read = checkpoint.load(folder)
            assert read.step >= newest
            assert float(read.model["w"][0]) == read.step == read.state["loader"]["position"]
            newest = read.step
    assert newest > 0


def test_a_file_with_code_in_it_is_refused_and_not_run(tmp_path):
    witness = tmp_path / "it ran"

    class Payload:
        def __reduce__(self):
            return open, (str(witness), "w")

    torch.save({"w": Payload()}, tmp_path / "model.pt")

    with pytest.raises(FormatError, match="more than tensors"):
        checkpoint.read_tensors(tmp_path / "model.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(FormatError, match="more than tensors"):
        checkpoint.read_tensors(tmp_path / "plain.pt")
    assert not witness.exists()


def test_a_changed_byte_is_found(tmp_path):
    folder = save(tmp_path, 5)
    content = bytearray((folder / "model.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "model.pt").write_bytes(content)

    with pytest.raises(CorruptShardError, match=r"model\.pt is not the file that was saved"):
        checkpoint.load(folder)


def test_a_checkpoint_of_the_future_is_refused(tmp_path):
    folder = save(tmp_path, 5)
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "version": 2}))

    with pytest.raises(UnsupportedVersionError, match="version 2; this tokenmill reads 1"):
        checkpoint.load(folder)


def test_latest_cannot_point_elsewhere(tmp_path):
    save(tmp_path, 5)
    (tmp_path / "checkpoints" / "latest").write_text("../../elsewhere\n")

    with pytest.raises(FormatError, match="expected the name of a checkpoint"):
        latest(tmp_path)


@pytest.mark.parametrize("changed", [{"step": 90}, {"files": {}}, {"loader": {"position": 1}}])
def test_a_state_that_was_edited_is_refused(tmp_path, changed):
    folder = save(tmp_path, 10)
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, **changed}, indent=1))

    with pytest.raises(CorruptShardError, match=r"state\.json is not the file that was saved"):
        checkpoint.load(folder)


def test_a_checkpoint_under_the_name_of_another_step_is_refused(tmp_path):
    folder = save(tmp_path, 10).rename(tmp_path / "checkpoints" / "step_00000090")

    with pytest.raises(FormatError, match=r"is of step 10, and its folder is named step_00000090"):
        checkpoint.load(folder)


def names(run_dir):
    return sorted(path.name for path in (run_dir / "checkpoints").glob("step_*"))


def test_after_going_back_the_abandoned_checkpoints_go_first(tmp_path):
    for step in (10, 20, 30, 40):
        save(tmp_path, step, keep=3)
    mine = tmp_path / "checkpoints" / "step_00000010_of_mine"
    mine.mkdir()
    (tmp_path / "checkpoints" / "latest").write_text("step_00000020\n")

    checkpoint.remove_leftovers(tmp_path, keep=3)
    assert names(tmp_path) == [mine.name, "step_00000020", "step_00000030", "step_00000040"]
    save(tmp_path, 25, keep=3)
    assert names(tmp_path) == [mine.name, "step_00000020", "step_00000025"]
    for step in (35, 45):
        save(tmp_path, step, keep=3)
    assert names(tmp_path) == [mine.name, "step_00000025", "step_00000035", "step_00000045"]


def test_a_checkpoint_that_goes_is_first_no_checkpoint(tmp_path, monkeypatch):
    """Whoever stops while files are removed leaves nothing that looks like a checkpoint."""
    for step in (10, 20, 30):
        save(tmp_path, step, keep=3)
    (tmp_path / "checkpoints" / "latest").write_text("step_00000010\n")

    def stop_after_one(folder):
        next(folder.iterdir()).unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", stop_after_one)
    for step in (20, 25, 40):  # there already; before one that is there; after all
        with suppress(KeyboardInterrupt):
            save(tmp_path, step, keep=1)
        for name in names(tmp_path):
            checkpoint.load(tmp_path / "checkpoints" / name)
    assert names(tmp_path)[-1] == "step_00000040"


def test_steps_of_nine_digits_come_after_those_of_eight(tmp_path):
    for step in (99_999_998, 99_999_999, 100_000_000):
        save(tmp_path, step, keep=2)

    assert names(tmp_path) == ["step_100000000", "step_99999999"]
