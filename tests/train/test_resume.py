"""Killed and resumed equals never stopped: to the bit on one rank, to rounding on two."""

import itertools
import json
import random
import re
import select
import shutil
import signal
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from train_runs import TINY, command, environ_of_ranks, losses, text, val_losses

from tokenmill.compat.text_file import encode_text
from tokenmill.errors import FormatError, OrderMismatchError, SettingsMismatchError, Stopped
from tokenmill.tokens.load_tokenizer import load
from tokenmill.torch import Ranks
from tokenmill.train import TrainConfig, checkpoint, loop, train
from tokenmill.train.model import GPT

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


@contextmanager
def watched(look):
    """Inside, `look` is called with the number of each forward pass of a GPT, and its rows."""
    calls = itertools.count(1)

    def see(module, arguments):
        if isinstance(module, GPT):
            look(next(calls), len(arguments[0]))

    hook = torch.nn.modules.module.register_module_forward_pre_hook(see)
    try:
        yield
    finally:
        hook.remove()


# 2 passes that are timed; 4 steps, of 4 passes each; 3 validations, of 2 and 8 for the sample.
SHORT = {
    "max_iters": 4,
    "micro_batch_size": 2,
    "eval_interval": 2,
    "eval_batches": 2,
    "checkpoint_interval": 3,
    "skip_steps": "1",
    "log_interval": 1,
}


def rows_of_metrics(run_dir):
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    timed = re.compile("tokens_per_second|data_wait|wait_.*|queue_depth")
    return [{k: v for k, v in r.items() if not timed.fullmatch(k)} for r in rows]


@pytest.mark.parametrize(
    ("passes", "saved"),
    [(2, None), (13, None), (18, 1), (20, 2), (21, 2), (22, 2), (33, 2), (36, 3), (38, 4)],
)
def test_asked_in_the_middle_of_a_step_or_a_validation_it_stops_there(
    whole, tmp_path, passes, saved
):
    """Ctrl-C at a forward pass: at most that one is finished, and nothing is lost or doubled."""
    settings = settings_in(whole, tmp_path, **SHORT)
    train({**settings, "model_name": "not_stopped"}, quiet=True)
    seen = []

    def press(number, rows):
        seen.append(number)
        if number == passes:
            signal.raise_signal(signal.SIGINT)

    with watched(press), pytest.raises(Stopped) as stopped:
        train(settings, quiet=True)

    assert len(seen) <= passes + 8  # the rest of a sample
    words = "before the first step of 4" if saved is None else f"saved at step {saved} of 4"
    assert f"SIGINT: {words}" in str(stopped.value)
    for _ in range(2):  # the second time all is done
        train(settings, resume=True, quiet=True)
        assert rows_of_metrics(tmp_path / "run") == rows_of_metrics(tmp_path / "not_stopped")
    one, other = (json.loads(latest_state(tmp_path / name)) for name in ("run", "not_stopped"))
    assert one["loader"] == other["loader"]
    assert one["left_out"] == other["left_out"] == [1]


def test_a_forward_pass_on_a_cpu_is_bounded_so_that_it_can_be_stopped(whole, tmp_path, monkeypatch):
    settings = settings_in(whole, tmp_path, max_iters=2, sample_tokens=0, dropout=0.0)
    num_weights = GPT(TrainConfig(n_layer=1, n_head=2, n_embd=32), 257).num_parameters
    train({**settings, "model_name": "whole_steps"}, quiet=True)
    monkeypatch.setattr(loop, "CPU_PASS", 3 * num_weights * settings["block_size"])
    rows = []
    with watched(lambda number, count: rows.append(count)):
        train(settings, quiet=True)

    assert max(rows) == 3
    assert rows[2:11] == [3, 3, 2] * 3  # of validations, with 8 rows each; so are steps
    for (_, a), (_, b) in zip(
        losses(tmp_path / "run"), losses(tmp_path / "whole_steps"), strict=True
    ):
        assert a == pytest.approx(b, rel=1e-4)


def test_the_step_and_the_position_in_the_data_are_compared(whole, tmp_path):
    settings = copy_of_whole(whole, tmp_path)
    saved = checkpoint.load(tmp_path / "run" / "checkpoints" / f"step_{STEPS:08d}")
    state = {k: v for k, v in saved.state.items() if k not in ("version", "step", "files")}
    tensors = {"model": saved.model, "optimizer": saved.optimizer}
    checkpoint.save(tmp_path / "run", step=90, state=state, keep=2, **tensors)

    with pytest.raises(FormatError, match=r"step 90 is damaged: its loader is at step 60 of"):
        train({**settings, "max_iters": 100}, resume=True, quiet=True)


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


def test_a_run_that_was_killed_before_its_last_page_was_drawn_draws_it(whole, tmp_path):
    settings = copy_of_whole(whole, tmp_path)
    pages = {name: (whole / "whole" / name).read_text() for name in ("run.html", "loss.svg")}
    for name in pages:
        (tmp_path / "run" / name).write_text("of the checkpoint before")

    train({**settings, "out_dir": str(tmp_path), "model_name": "run"}, resume=True, quiet=True)

    assert (tmp_path / "run" / "loss.svg").read_text() == pages["loss.svg"].replace("whole", "run")
    assert f"Step {STEPS} of {STEPS}" in (tmp_path / "run" / "run.html").read_text()
    assert "Use of the shards" in (tmp_path / "run" / "run.html").read_text()


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
