"""StreamingDataset: the sequences of a text file, from the `.npy` beside it when there is one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenmill.torch.text_file import open_text
from tokenmill.torch.windows_dataset import WindowsDataset


class StreamingDataset(WindowsDataset):
    """(inputs, targets) of `seq_length` tokens each, by number, in the order of the file.

    `split` is `train` (the first 90 %) or `val` (the rest). What was found is printed (`say`). A
    missing `.npy` is a warning, and the text is then tokenized in memory; one older than its text
    is refused.
    """

    def __init__(
        self,
        file_path: str | Path,
        seq_length: int = 128,
        tokenizer: Any = "gpt2",
        split: str = "train",
        *,
        say: Callable[[str], object] = print,
    ) -> None:
        data = open_text(file_path, split, tokenizer=tokenizer, say=say)
        super().__init__(data, block_size=seq_length, order="sequential", items="pair")
        self.seq_length, self.split = seq_length, split
        say(f"StreamingDataset ({split}): {len(self):,} sequences from {data.num_tokens:,} tokens")
