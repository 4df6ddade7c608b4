"""Local token files (`.npy` or any other) and text files as datasets and loaders.

Items and batches are `{"input_ids", "labels"}`, where labels[t] is the token after input_ids[t];
those of StreamingDataset are pairs. `open_options` are arguments of `tokenmill.open`.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from tokenmill import dataset
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.compat.own_words import in_own_words
from tokenmill.compat.text_file import open_text
from tokenmill.torch.token_data_loader import TokenDataLoader, validation_loader
from tokenmill.torch.windows_dataset import WindowsDataset
from tokenmill.torch.world import find_ranks

OPEN_OPTIONS = takes_keywords_of(dataset.open, but=["path", "split"])


class LocalTokenizedDatasetFixed(WindowsDataset):
    """Sequences of `max_length` tokens by number, in the order of the file."""

    @OPEN_OPTIONS
    @in_own_words(block_size="max_length")
    def __init__(self, data_path: str | Path, max_length: int = 1024, **open_options: Any) -> None:
        data = dataset.open(data_path, "all", **open_options)
        super().__init__(data, block_size=max_length, order="sequential", items="dict")
        self.max_length = max_length


class LocalTokenizedDataset(IterableDataset[Any]):
    """Sequences of `max_length` tokens as a stream, each once an epoch over all workers and ranks.

    A worker does not know how a DataLoader will batch what it yields. Say `batch_size` here as
    well, and workers take turns by whole batches: the order is then the same with any number of
    them. `create_dataloaders` needs no such care. `set_epoch` before each epoch changes the order.
    """

    @OPEN_OPTIONS
    @in_own_words(block_size="max_length")
    def __init__(
        self,
        data_path: str | Path,
        max_length: int = 1024,
        *,
        seed: int = 42,
        shuffle: bool = True,
        batch_size: int = 1,
        rank: int | None = None,
        world_size: int | None = None,
        **open_options: Any,
    ) -> None:
        self.ranks = find_ranks(rank, world_size)
        self.max_length = max_length
        self.batch_size = batch_size
        self.windows = WindowsDataset(
            dataset.open(data_path, "all", **open_options),
            block_size=max_length,
            seed=seed,
            order="shuffle" if shuffle else "sequential",
            items="dict",
        )

    def __len__(self) -> int:
        """Sequences of one epoch on this rank: equal on all ranks, the rest is left out."""
        return len(self.windows) // self.ranks.world_size

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass this epoch."""
        self.windows.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
        total = len(self)
        for first in range(number * self.batch_size, total, count * self.batch_size):
            # Ranks take turns by batches, as in all loaders; the last batch of each may be shorter.
            rows = min(self.batch_size, total - first)
            start = first * self.ranks.world_size + self.ranks.rank * rows
            yield from self.windows.__getitems__(range(start, start + rows))


class StreamingDataset(WindowsDataset):
    """(inputs, targets) of `seq_length` tokens each, by number, in the order of the file.

    `split` is `train` (the first 90 %) or `val` (the rest). `tokenizer` is by default the one that
    `pretokenize` left beside the `.npy`, else gpt2. What was found is printed (`say`). A
    missing `.npy` is a warning, and the text is then tokenized in memory; one older than its text
    is refused.
    """

    @in_own_words(block_size="seq_length")
    def __init__(
        self,
        file_path: str | Path,
        seq_length: int = 128,
        tokenizer: Any = None,
        split: str = "train",
        *,
        say: Callable[[str], object] = print,
    ) -> None:
        (data,) = open_text(
            file_path,
            [split],
            tokenizer=tokenizer,
            say=say,
            warn=lambda text: warnings.warn(text, stacklevel=5),
        )
        super().__init__(data, block_size=seq_length, order="sequential", items="pair")
        self.seq_length = seq_length
        self.split = split
        say(f"StreamingDataset ({split}): {len(self):,} sequences from {data.num_tokens:,} tokens")


@OPEN_OPTIONS
@in_own_words(block_size="max_length")
def create_dataloaders(
    train_data_path: str | Path,
    val_data_path: str | Path,
    batch_size: int = 32,
    max_length: int = 1024,
    num_workers: int = 0,
    prefetch_factor: int | None = None,
    seed: int = 42,
    *,
    rows: str = "windows",
    begin_token: int | None = None,
    augment: Sequence[Any] | None = None,
    **open_options: Any,
) -> tuple[TokenDataLoader, TokenDataLoader]:
    """Loaders of both files: shuffled for training, in file order for validation.

    A pass is one epoch, each shuffled differently. Both take the share of this rank (`batch_size`
    counts the rows of one rank; the batch of a smaller validation set is shorter), and the states
    of both do not depend on the workers. `rows`, `begin_token` and `augment` are for training
    alone: validation always reads plain windows.
    """
    workers: dict[str, Any] = {"persistent_workers": num_workers > 0}
    if num_workers and prefetch_factor:
        workers["prefetch_factor"] = prefetch_factor
    shape: dict[str, Any] = {"batch_size": batch_size, "block_size": max_length, "items": "dict"}
    shape |= {"seed": seed, "num_workers": num_workers, "workers": workers}
    train = dataset.open(train_data_path, "all", **open_options)
    val = dataset.open(val_data_path, "all", **open_options)
    return (
        TokenDataLoader(train, rows=rows, begin_token=begin_token, augment=augment, **shape),
        validation_loader(val, **shape),
    )
