"""Write one split as shards of ours; conversion writes the manifest, last."""

from pathlib import Path

import numpy as np

from tokenmill.formats.engine.writing import Rolling, Target
from tokenmill.shards.layout import shard_name
from tokenmill.shards.manifest import Shard
from tokenmill.shards.writer import ShardWriter

DTYPES = ("uint16", "uint32")
TOKENS_PER_SHARD = 10_000_000
MAX_TOKENS_PER_SHARD = 2**62


class OursWriter(Rolling):
    """One split as shards."""

    whole_documents = False

    def __init__(self, folder: Path, target: Target) -> None:
        super().__init__(folder, target)
        self.shards: list[Shard] = []

    def open_shard(self) -> None:
        """Numbers continue from split to split."""
        name = shard_name(self.target.split or "train", self.number)
        self._shard = ShardWriter(self.folder, name, self.target.dtype, durable=True)

    def write(self, tokens: np.ndarray) -> None:
        """Tokens of the open shard."""
        self._shard.write(tokens)

    def close_shard(self, num_tokens: int, ends: np.ndarray) -> None:
        """The index of the shard, and its entry for the manifest."""
        self.shards.append(self._shard.finish(ends))


def open_writer(folder: Path, target: Target) -> OursWriter:
    """A writer of one split."""
    return OursWriter(folder, target)
