"""Datasets for Megatron's `pretrain`, which shards and resumes them by the number of a sample.

Item i is sample i of the order, so `--dataloader-type single` reads the order, and resumes in it on
another data-parallel size: Megatron saves the samples that were consumed, as our states do.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tokenmill.torch import WindowsDataset


def datasets_provider(
    train: Any, val: Any = None, test: Any = None, *, block_size: int, **options: Any
) -> Callable[..., tuple[WindowsDataset | None, ...]]:
    """Return the function that `pretrain` calls for its datasets of {"tokens", "labels", ...}.

    `block_size` is `--seq-length`; `options` are for `WindowsDataset`. `val` and `test` are read in
    order.
    """

    def provide(
        num_samples: Sequence[int | None], vp_stage: int | None = None
    ) -> tuple[WindowsDataset | None, ...]:
        made: list[WindowsDataset | None] = []
        for data, number in zip((train, val, test), num_samples, strict=True):
            order = {"order": "sequential"} if made else {}
            keywords = {**options, **order, "block_size": block_size, "items": "megatron"}
            is_used = data is not None and number != 0
            made.append(WindowsDataset(data, num_samples=number, **keywords) if is_used else None)
        return tuple(made)

    provide.is_distributed = True  # type: ignore[attr-defined] # each rank builds its own
    return provide
