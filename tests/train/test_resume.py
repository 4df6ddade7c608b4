"""Killed and resumed equals never stopped: to the bit on one rank, to rounding on two."""

import json
import random
import select
import shutil
import signal

import numpy as np
import pytest
import torch
from train_runs import TINY, command, environ_of_ranks, losses, text, val_losses

from tokenmill.compat.text_file import encode_text
from tokenmill.errors import OrderMismatchError, SettingsMismatchError
from tokenmill.tokens.load_tokenizer import load
from tokenmill.torch import Ranks
from tokenmill.train import TrainConfig, train

STEPS = 60
SETTINGS = {**TINY, "max_iters": STEPS, "checkpoint_interval": 4, "dropout": 0.1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run, and its data."""
    folder = tmp_path_factory.mktemp("whole")
    np.save(folder / "tokens.npy", encode_text(text(), load("bytes")))
    data = {"train_data_path": str(folder / "tokens.npy"), "out_dir": str(folder)}
    torch.set_num_threads(1)
    train({**SETTINGS, **data, "model_name": "whole"}, quiet=True)
    return folder


def settings_in(whole, out_dir, **more):
    return {
        **SETTINGS,
        "train_data_path": str(whole / "tokens.npy"),
        "out_dir": str(out_dir),
        "model_name": "run",
        **more,
    }


def wait_for_step(run_dir, process, step):
    """Return when the metrics show this step (by looking, as fast as the run writes)."""
    seen = [0]
    while process.poll() is None and seen[-1] < step:
        seen = [s for s, _ in losses(run_dir)] or [0]
        select.select([], [], [], 0.01)


def test_killed_at_random_moments_and_resumed_equals_no_stop(whole, tmp_path):
    draw = random.Random()  # another moment every time the tests run
    settings, run_dir = settings_in(whole, tmp_path), tmp_path / "run"
    for kill, at in ((signal.SIGKILL, draw.randint(6, 20)), (signal.SIGTERM, draw.randint(25, 45))):
        process = command(settings, "--resume")
        wait_for_step(run_dir, process, at)
        process.send_signal(kill)
        code = process.wait(60)
        assert code == (75 if kill == signal.SIGTERM else -9), process.stderr.read()
    assert "saved at step" in process.stderr.read()

    train(settings, resume=True, quiet=True)

    assert losses(run_dir) == losses(whole / "whole")
    assert val_losses(run_dir) == val_losses(whole / "whole")
    assert len(losses(run_dir)) == STEPS
    assert not list((run_dir / "checkpoints").glob(".*.tmp"))


def test_a_run_of_one_rank_resumes_on_two_with_the_same_data(whole, tmp_path):
    """Preempted on one of two ranks: both save at the same step, and one rank finishes."""
    settings, run_dir = settings_in(whole, tmp_path, dropout=0.0), tmp_path / "run"
    alone = settings_in(whole, tmp_path, dropout=0.0, model_name="alone")
    train({**alone, "max_iters": STEPS}, quiet=True)
    # The first 20 steps on one rank, on its schedule of 60.
    train({**settings, "max_iters": 20, "decay_iters": STEPS}, quiet=True)

    two = [
        command({**settings, "decay_iters": STEPS}, "--resume", **environ)
        for environ in environ_of_ranks(2)
    ]
    wait_for_step(run_dir, two[0], 30)
    two[1].send_signal(signal.SIGTERM)  # to one rank only
    codes = [process.wait(120) for process in two]
    assert codes == [75, 75], [process.stderr.read() for process in two]
    stopped = json.loads(latest_state(run_dir))
    assert 30 <= stopped["step"] < STEPS
    assert stopped["loader"]["samples"] == stopped["step"] * settings["global_batch_size"]
    train({**settings, "decay_iters": STEPS}, resume=True, quiet=True)

    for (step, a), (_, b) in zip(losses(run_dir), losses(tmp_path / "alone"), strict=True):
        assert a == pytest.approx(b, rel=2e-3), step
    first = losses(run_dir)[:20]
    assert first == losses(tmp_path / "alone")[:20]


def latest_state(run_dir):
    folder = run_dir / "checkpoints"
    return (folder / (folder / "latest").read_text().strip() / "state.json").read_text()


def copy_of_whole(whole, tmp_path):
    shutil.copytree(whole / "whole", tmp_path / "run")
    return settings_in(whole, tmp_path, model_name="run")


def test_a_run_does_not_resume_with_other_settings(whole, tmp_path):
    settings = copy_of_whole(whole, tmp_path)

    with pytest.raises(SettingsMismatchError, match=r"global_batch_size +8 -> 16"):
        train({**settings, "global_batch_size": 16}, resume=True, quiet=True)


def test_a_run_does_not_resume_with_other_data(whole, tmp_path):
    settings = copy_of_whole(whole, tmp_path)
    np.save(tmp_path / "other.npy", encode_text(text(1400), load("bytes")))

    with pytest.raises(OrderMismatchError, match="num_tokens"):
        train(
            {**settings, "train_data_path": str(tmp_path / "other.npy"), "max_iters": 80},
            resume=True,
            quiet=True,
        )


def test_resume_alone_remembers_everything_else(whole, tmp_path):
    copy_of_whole(whole, tmp_path)

    result = train(
        {"out_dir": str(tmp_path), "model_name": "run", "max_iters": STEPS + 2},
        resume=True,
        quiet=True,
    )

    assert result.step == STEPS + 2
    assert losses(result.run_dir)[:STEPS] == losses(whole / "whole")


def test_validation_does_not_depend_on_the_number_of_ranks(whole):
    """Every rank's part computed here in turn; adding up is what the ranks do."""
    from tokenmill.dataset import open as open_tokens
    from tokenmill.train.loop import Validation
    from tokenmill.train.run_data import TrainingData

    train_data, val_data = (open_tokens(whole / "tokens.npy", s) for s in ("train", "val"))
    validation = Validation(
        "val",
        TrainingData(
            train_data, {}, {"val": val_data}, vocab_size=257, tokenizer=None, documents=False
        ),
        TrainConfig(block_size=32, eval_batch_size=4, eval_batches=5),
    )

    def some_loss(batch):
        return (batch.inputs.double().sin() * 1e-3).sum()

    total = sum(batch.num_targets for batch in validation.batches)
    alone = validation.loss(some_loss, Ranks(0, 1, "test"))
    parts = [validation.loss(some_loss, Ranks(r, 3, "test")) for r in range(3)]

    assert sum(parts) == pytest.approx(alone, rel=1e-12)
    assert total == 5 * 4 * 32
