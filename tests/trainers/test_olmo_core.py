"""OLMo-core's own Trainer on our loader: killed without warning, resumed on other ranks."""

import json
import os
import signal
import subprocess
import sys
from itertools import chain

import pytest
from trainer_packages import trainer

olmo_data = trainer("olmo_core.data")

import tokenmill  # noqa: E402
from tokenmill.torch import TorchLoader  # noqa: E402
from tokenmill.trainers.olmo_core import TokenLoader  # noqa: E402

ROW = 32
SCRIPT = """
import json, os, signal, sys
import torch
from olmo_core.distributed.utils import get_rank, get_world_size
from olmo_core.train import Duration, TrainerConfig
from olmo_core.train import prepare_training_environment, teardown_training_environment
from olmo_core.train.callbacks import CheckpointerCallback
from olmo_core.train.train_module import TrainModule
from olmo_core.train.train_module.train_module import EvalBatchSpec
import tokenmill
from tokenmill.trainers.olmo_core import TokenLoader

data, folder, log, kill_after = sys.argv[1:]
prepare_training_environment(backend="cpu:gloo")
rank, size = get_rank(), get_world_size()
seen = []

class Recorder(TrainModule):
    eval_batch_spec = EvalBatchSpec(rank_batch_size=1)
    def train_batch(self, batch, dry_run=False):
        if dry_run:
            return
        assert batch["labels"].shape == batch["input_ids"].shape
        seen.append(batch["input_ids"][:, 0].tolist())
        json.dump(seen, open(f"{log}-{rank}", "w"))
        if len(seen) > int(kill_after):
            os.kill(os.getpid(), signal.SIGKILL)
        self.record_ce_loss(torch.tensor(1.0))
    def state_dict(self, *, optim=None): return {"weight": torch.zeros(1)}
    def load_state_dict(self, state_dict): pass
    def eval_batch(self, batch, labels=None): pass
    def optim_step(self): pass
    def zero_grads(self): pass
    def num_flops_per_token(self, seq_len): return None
    def global_num_flops_in_batch(self, batch): return None

loader = TokenLoader(tokenmill.open(data, "train"), work_dir=folder + "/work", seed=7,
                     global_batch_size=8 * 32, sequence_length=32, dp_world_size=size, dp_rank=rank)
saver = CheckpointerCallback(save_interval=3, ephemeral_save_interval=None, save_async=False)
TrainerConfig(
    save_folder=folder + "/saved", work_dir=folder + "/work",
    max_duration=Duration.steps(10), save_overwrite=True, device="cpu",
    callbacks={"checkpointer": saver},
).build(Recorder(), loader).fit()
teardown_training_environment()
"""


def train(tmp_path, corpus, log, *, ranks, kill_after=99):
    (tmp_path / "script.py").write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    arguments = [tmp_path / "script.py", corpus, tmp_path, tmp_path / log, kill_after]
    done = subprocess.run(
        [sys.executable, *launcher, *map(str, arguments)],
        env={**os.environ, "OLMO_SHARED_FS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    parts = [json.loads((tmp_path / f"{log}-{rank}").read_text()) for rank in range(ranks)]
    return done, [[*chain(*step)] for step in zip(*parts, strict=True)]


def order_of(corpus, **options):
    data = tokenmill.open(corpus, "train")
    return TorchLoader(data, block_size=ROW, seed=7, epochs=1, **options)


@pytest.mark.timeout(900)  # two runs of its trainer, which imports for long
def test_the_trainer_killed_and_resumed_on_two_ranks_trains_on_the_same_rows(tmp_path, corpus):
    """Saved every third step and killed in the fifth: it goes on after the third."""
    order = order_of(corpus, batch_size=8)
    expected = [next(order).inputs[:, 0].tolist() for _ in range(10)]

    killed, first = train(tmp_path, corpus, "first", ranks=1, kill_after=4)
    resumed, rest = train(tmp_path, corpus, "rest", ranks=2)

    assert str(signal.SIGKILL.value) in killed.stderr
    assert resumed.returncode == 0, resumed.stderr
    assert first == expected[:5]
    assert rest == expected[3:]


def loader_of(corpus, tmp_path, **options):
    options = {"global_batch_size": 8 * ROW, "sequence_length": ROW, "seed": 7, **options}
    return TokenLoader(tokenmill.open(corpus, "train"), work_dir=tmp_path, **options)


def epochs_of(loader, numbers):
    seen = []
    for number in numbers:
        loader.reshuffle(epoch=number)
        seen += [batch["input_ids"].tolist() for batch in loader]
        assert loader.batches_processed == loader.total_batches
        loader.reset()
    return seen


def test_epochs_follow_as_its_trainer_asks_for_them(corpus, tmp_path):
    order = order_of(corpus, batch_size=8)
    expected = [batch.inputs.tolist() for _ in range(2) for batch in order]
    loader = loader_of(corpus, tmp_path)

    assert isinstance(loader, olmo_data.TextDataLoaderBase)
    assert epochs_of(loader, (1, 2)) == expected
    assert epochs_of(loader, (2,)) == expected[len(expected) // 2 :]


def test_the_batch_size_may_grow_on_the_way(corpus, tmp_path):
    """OLMo-core's scheduler sets it between two batches, then iterates anew."""
    loader = loader_of(corpus, tmp_path)
    loader.reshuffle(epoch=1)
    batches = iter(loader)
    seen = [row for _ in range(4) for row in next(batches)["input_ids"].tolist()]

    loader.global_batch_size = 16 * ROW
    later = next(iter(loader))["input_ids"]

    order = order_of(corpus, batch_size=8)
    expected = [row for _ in range(6) for row in next(order).inputs.tolist()]
    assert [*seen, *later.tolist()] == expected
    assert loader.batches_processed == 3


def test_lengths_of_documents_are_those_of_its_own_collator(corpus, tmp_path):
    loader = loader_of(
        corpus, tmp_path, documents=True, global_batch_size=8 * 256, sequence_length=256
    )
    loader.reshuffle(epoch=1)

    batch = next(iter(loader))

    eos = tokenmill.open(corpus, "train").end_of_text_id
    for row, labels, lengths in zip(
        batch["input_ids"], batch["labels"], batch["doc_lens"], strict=True
    ):
        theirs = olmo_data.utils.get_document_lengths(row, eos)
        assert lengths[lengths > 0].tolist() == theirs.tolist()
        assert (labels == -100).tolist() == (row == eos).tolist()
    assert batch["max_doc_lens"] == batch["doc_lens"].max(dim=1).values.tolist()


def test_a_batch_that_does_not_divide_is_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match=r"global_batch_size is 100 tokens; .* multiple of .* 32"):
        loader_of(corpus, tmp_path, global_batch_size=100)
