"""LitGPT's own `pretrain` on our data module: killed without warning, resumed, on other ranks."""

import json
import os
import signal
import subprocess
import sys

import pytest
from trainer_packages import trainer

litgpt_data = trainer("litgpt.data")

import torch  # noqa: E402

import tokenmill  # noqa: E402
from tokenmill.torch import TorchLoader  # noqa: E402
from tokenmill.trainers.litgpt import TokenData  # noqa: E402

# Writes down the windows that `pretrain` trains on, and ends without warning after some.
SCRIPT = """
import json, os, signal, sys
import torch
torch.compile = lambda model: model
import litgpt.pretrain as pretrain
from litgpt.__main__ import main

log, kill_after, *sys.argv[1:] = sys.argv[1:]

class Recorder(pretrain.CycleIterator):
    def __next__(self):
        batch = super().__next__()
        with open(log, "a") as file:
            file.write(json.dumps(batch[:, 0].tolist()) + "\\n")
        if sum(1 for _ in open(log)) > int(kill_after):
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

pretrain.CycleIterator = Recorder
main()
"""
COMMAND = """
pretrain pythia-14m --data tokenmill.trainers.litgpt.TokenData --data.path {data} --data.seed 7
--out_dir {out} --resume {resume} --precision 32-true --devices 1 --logger_name csv
--train.save_interval 2 --train.log_interval 10 --train.global_batch_size 4
--train.micro_batch_size 2 --train.max_tokens 896 --train.max_norm 1 --train.lr_warmup_steps 1
--train.max_seq_length 32 --eval.interval 100 --eval.max_iters 2 --eval.final_validation false
"""


def pretrain(tmp_path, corpus, log, *, kill_after, resume):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = COMMAND.format(data=corpus, out=tmp_path / "out", resume=str(resume).lower())
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py", log, str(kill_after), *command.split()],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    return done, [json.loads(line) for line in log.read_text().splitlines()]


def order_of(corpus, **ranks):
    data = tokenmill.open(corpus, "train")
    return TorchLoader(data, block_size=32, seed=7, **ranks)


@pytest.mark.timeout(900)  # two runs of its command, which imports for long
def test_pretrain_killed_and_resumed_trains_on_the_same_windows(tmp_path, corpus):
    """Saved every second step, 4 batches; killed in batch 7, so the last checkpoint is after 4."""
    order = order_of(corpus, batch_size=2)
    expected = [next(order).inputs[:, 0].tolist() for _ in range(15)]

    killed, first = pretrain(tmp_path, corpus, tmp_path / "first", kill_after=6, resume=False)
    resumed, rest = pretrain(tmp_path, corpus, tmp_path / "rest", kill_after=99, resume=True)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert resumed.returncode == 0, resumed.stderr
    assert first == expected[:7]
    assert rest == expected[4:]  # it looks at one batch more before it ends

    checkpoint = tmp_path / "out" / "step-00000002" / "lit_model.pth"
    state = torch.load(checkpoint, weights_only=False)["train_dataloader"]
    parts = [order_of(corpus, batch_size=1, rank=rank, world_size=2) for rank in range(2)]
    for part in parts:
        part.load_state_dict(state)
    assert [next(part).inputs[0, 0].item() for part in parts] == expected[4]


def test_it_is_a_data_module_of_litgpt(corpus):
    module = TokenData(str(corpus))
    module.connect(batch_size=2, max_seq_length=16)
    module.prepare_data()
    module.setup()

    window = next(iter(module.train_dataloader()))
    val = next(iter(module.val_dataloader()))

    assert isinstance(module, litgpt_data.DataModule)
    assert window.shape == (2, 17)
    assert val[0].tolist() == tokenmill.open(corpus, "val").tokens(0, 17).tolist()
