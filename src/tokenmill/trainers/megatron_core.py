"""Datasets for Megatron's `pretrain`, which shards and resumes them by the number of a sample.

Item i is sample i of the order, so `--dataloader-type single` reads it exactly, and resumes on
another data-parallel size: Megatron saves the samples that were consumed, as a state does.
"""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.batches.run import LoaderKeywords
from tokenmill.torch import WindowsDataset


@takes_keywords_of(WindowsDataset, but=("data", "items", "num_samples", "ignore_index", "form"))
def datasets_provider(
    train: Any,
    val: Any = None,
    test: Any = None,
    *,
    block_size: int,
    **options: Unpack[LoaderKeywords],
) -> Callable[..., tuple[WindowsDataset | None, ...]]:
    """Return the function that `pretrain` calls for its datasets of {"tokens", "labels", ...}.

    `val` and `test` are read in order. `block_size` is `--seq-length`.
    """

    def provide(
        num_samples: Sequence[int | None], vp_stage: int | None = None
    ) -> tuple[WindowsDataset | None, ...]:
        keywords: dict[str, Any] = {**options, "block_size": block_size, "items": "megatron"}
        made: list[WindowsDataset | None] = []
        for data, number in zip((train, val, test), num_samples, strict=True):
            wanted = None if data is None else WindowsDataset(data, num_samples=number, **keywords)
            made.append(wanted)
            keywords["order"] = "sequential"
        return tuple(made)

    provide.is_distributed = True  # type: ignore[attr-defined] # each rank builds its own
    return provide
