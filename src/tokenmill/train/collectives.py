"""The few collectives a run needs; with one process they cost nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import Tensor, distributed

from tokenmill.base.stalls import waiting_for
from tokenmill.torch.torch_loader import known_device
from tokenmill.torch.world import Ranks, find_ranks


@contextmanager
def process_group(device: torch.device) -> Iterator[Ranks]:
    """Join the process group of torchrun or of a Slurm step; leave it at the end."""
    ranks = find_ranks()
    ours = ranks.world_size > 1 and not distributed.is_initialized()
    if ours:
        if "MASTER_ADDR" not in os.environ:
            raise ValueError(
                f"{ranks}, but MASTER_ADDR is not set, so the ranks cannot find each other\n\n"
                "hint: start them with torchrun --nproc_per_node=N train.py ..."
            )
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            rank=ranks.rank,
            world_size=ranks.world_size,
            timeout=timedelta(minutes=10),
        )
    try:
        yield ranks
    finally:
        if ours:
            distributed.destroy_process_group()


def sum_over_ranks(values: Tensor) -> Tensor:
    """Add up a tensor over all ranks."""
    if distributed.is_initialized():
        with _others():
            distributed.all_reduce(values)
    return values


def texts_of_ranks(text: str) -> list[str]:
    """The text of each rank, in the order of the ranks; the same list on all of them."""
    if not distributed.is_initialized():
        return [text]
    texts = [""] * distributed.get_world_size()
    with _others():
        distributed.all_gather_object(texts, text)
    return texts


def barrier() -> None:
    """Wait until every rank is here."""
    if distributed.is_initialized():
        with _others():
            distributed.barrier()


def _others() -> waiting_for:
    return waiting_for(f"the other ranks, on rank {distributed.get_rank()}")


def local_device(name: str) -> torch.device:
    """`auto` is this process's GPU if there is one, then Apple's, then the CPU."""
    if name == "auto" and torch.cuda.is_available():
        name = "cuda"
    elif name == "auto":
        name = "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    device = known_device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
