"""How an order reads files: how many frames of compressed shards it needs at a time, how far apart.

`sequential` reads one place after another; `blocks` stays in the blocks of a group until all their
windows are served. The frames of these are unpacked where they are and kept in memory, and nothing
is written. Any other order may ask for any window next, so its shards are unpacked into the cache
folder; and so are those of groups that would take more than `MOST_FRAMES`.
"""

from tokenmill.dataset import TokenDataset
from tokenmill.edits.grown_source import GrownSource, plain_order
from tokenmill.order.blocks import Blocks, ShardBlocks
from tokenmill.order.row_order import RowOrder
from tokenmill.order.simple_orders import Sequential
from tokenmill.order.source_order import SourceOrder
from tokenmill.reading.frames import FRAME_BYTES
from tokenmill.reading.packed_reader import FrameRuns
from tokenmill.reading.shard_reader import Spread

FRAMES_IN_ORDER = 64
MOST_FRAMES = 1024  # 1 GiB


def frames_in_use(order: SourceOrder, item_size: int) -> int | None:
    """Frames to keep, of 1 MiB each; None where they would be too many."""
    arrangement = order.arrangement
    if isinstance(arrangement, Sequential):
        return FRAMES_IN_ORDER
    if not isinstance(arrangement, (Blocks, ShardBlocks)):
        return None
    block_bytes = arrangement.windows_per_block * order.windows.block_size * item_size
    # A block may begin and end inside a frame.
    frames = arrangement.blocks_per_group * (-(-block_bytes // FRAME_BYTES) + 1)
    needed = min(frames, order.windows.num_tokens * item_size // FRAME_BYTES) + FRAMES_IN_ORDER
    return needed if needed <= MOST_FRAMES else None


def frame_runs_of(
    data: TokenDataset, source: SourceOrder | RowOrder | GrownSource
) -> FrameRuns | None:
    """The frames of a compressed dataset, if this order is read from them."""
    order = plain_order(source)
    if isinstance(order, RowOrder):
        return None
    count = frames_in_use(order, data.dtype.itemsize)
    if count is None:
        data.warn_if_cache_is_small()
        return None
    return data.frame_runs(count)


def spread_of(source: SourceOrder | RowOrder | GrownSource) -> Spread:
    """How an order reads the files of a dataset, for those that are in a store."""
    order = plain_order(source)
    arrangement = None if isinstance(order, RowOrder) else order.arrangement
    if isinstance(arrangement, (Sequential, ShardBlocks)):
        return Spread.NEIGHBOURS
    return Spread.SOME if isinstance(arrangement, Blocks) else Spread.EVERYWHERE
