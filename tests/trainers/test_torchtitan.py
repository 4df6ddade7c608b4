"""torchtitan builds our loader as it builds its own, and its checkpoints resume on other ranks."""

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import torch
from trainer_packages import trainer

import tokenmill
from tokenmill.torch import TorchLoader

ROOT = Path(__file__).parents[2]
SHAPE = {"seq_len": 32, "local_batch_size": 4}

# What the versions with Grain have, as far as a loader meets it: a base class with a nested Config
# that builds its owner, and a trainer that names rows by their tokens.
GRAIN = """
from abc import ABC, abstractmethod
from dataclasses import dataclass
from torch.distributed.checkpoint.stateful import Stateful

class BaseDataLoader(Stateful, ABC):
    @dataclass(kw_only=True, slots=True)
    class Config:
        def build(self, **runtime):
            return TokenLoader(self, **runtime)

    @abstractmethod
    def __iter__(self): ...

    def close(self): ...
"""


def order_of(corpus, **options):
    return TorchLoader(tokenmill.open(corpus, "train"), block_size=32, documents=True, **options)


def rows(batch):
    inputs, labels = batch
    return inputs["input"].tolist(), inputs["positions"].tolist(), labels.tolist()


def test_the_versions_with_grain_give_the_length_and_the_tokens_of_a_batch(tmp_path, corpus):
    package = tmp_path / "torchtitan" / "components" / "data"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "loader.py").write_text(GRAIN)
    script = f"""
import tokenmill.trainers.torchtitan as adapter
import torchtitan.components.data.loader as grain
grain.TokenLoader = adapter.TokenLoader
loader = adapter.TokenLoader.Config(path={str(corpus)!r}).build(
    dp_world_size=2, dp_rank=1, tokenizer=None, max_context_length=32, num_tokens_per_batch=128)
inputs, labels = next(iter(loader))
assert issubclass(adapter.TokenLoader, grain.BaseDataLoader)
print(inputs["input"].tolist() + labels.tolist())
loader.close()
"""
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "src")])

    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )

    batch = next(order_of(corpus, batch_size=4, rank=1, world_size=2))
    assert done.stdout.strip() == str(batch.inputs.tolist() + batch.labels.tolist()), done.stderr


RUN = """
import json, os, sys
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from tokenmill.trainers.torchtitan import TokenLoader

data, folder, steps, resume = sys.argv[1:]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
loader = TokenLoader.Config(path=data).build(
    dp_world_size=size, dp_rank=rank, tokenizer=None, seq_len=32, local_batch_size=8 // size,
    snapshot_every_n_steps=None)
if int(resume):
    checkpoint.load({"dataloader": loader}, checkpoint_id=f"{folder}/saved")
batches = iter(loader)
seen = [next(batches)[0]["input"][:, 0].tolist() for _ in range(int(steps))]
checkpoint.save({"dataloader": loader}, checkpoint_id=f"{folder}/saved")
next(batches)  # trained on, but not saved
json.dump(seen, open(f"{folder}/seen-{resume}-{rank}.json", "w"))
dist.barrier()
os._exit(0)
"""


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_distributed_checkpoint_resumes_on_another_number_of_ranks(
    tmp_path, corpus, before, after
):
    trainer("torchtitan")
    (tmp_path / "run.py").write_text(RUN)
    order = order_of(corpus, batch_size=8)
    expected = [next(order).inputs[:, 0].tolist() for _ in range(6)]

    seen = []
    for resume, ranks in enumerate((before, after)):
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        arguments = [tmp_path / "run.py", corpus, tmp_path, 3, resume]
        subprocess.run([sys.executable, *launcher, *map(str, arguments)], check=True)
        files = [tmp_path / f"seen-{resume}-{rank}.json" for rank in range(ranks)]
        parts = [json.loads(file.read_text()) for file in files]
        seen += [[*chain(*step)] for step in zip(*parts, strict=True)]

    assert seen == expected


def test_the_trainer_builds_it_like_a_loader_of_its_own(corpus):
    base = trainer("torchtitan.components.dataloader")
    from torchtitan.config import Configurable

    from tokenmill.trainers.torchtitan import TokenLoader

    config = TokenLoader.Config(path=str(corpus))
    loader = config.build(dp_world_size=1, dp_rank=0, tokenizer=None, **SHAPE)

    assert isinstance(loader, base.BaseDataLoader)
    assert isinstance(config, Configurable.Config)
    assert config.to_dict()["path"] == str(corpus)
    batch = next(order_of(corpus, batch_size=4))
    assert rows(next(iter(loader))) == (
        batch.inputs.tolist(),
        batch.positions.tolist(),
        batch.labels.tolist(),
    )
    loader.load_state_dict({})  # torchtitan's way to say that nothing was saved


def test_a_loader_that_ends_lets_the_trainer_know(corpus):
    trainer("torchtitan")
    from tokenmill.trainers.torchtitan import TokenLoader

    config = TokenLoader.Config(path=str(corpus), split="val", infinite=False, documents=False)
    loader = config.build(dp_world_size=1, dp_rank=0, **SHAPE)

    batches = list(loader)

    assert len(batches) == (tokenmill.open(corpus, "val").num_tokens - 1) // 32 // 4
    assert torch.equal(batches[0][0]["positions"], torch.arange(32).repeat(4, 1))
