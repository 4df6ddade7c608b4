"""The first documents of each split as Parquet, so that the hub's viewer has something to show.

Token shards are bytes to the viewer. A hundred decoded documents are a few hundred kB.
"""

import io
from collections.abc import Iterator
from pathlib import Path

from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import MissingExtraError

NUM_DOCUMENTS = 100
TOKENS_PER_DOCUMENT = 4096  # a book is shown by its first pages


def samples(folder: Path, splits: list[str]) -> dict[str, bytes]:
    """Split -> a Parquet file of its first documents: number, tokens in all, ids, text."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "a sample for the hub's viewer", package="pyarrow", extra="parquet"
        ) from None
    files = {}
    for split in splits:
        data = open_dataset(folder, split)
        if data.num_tokens:
            files[split] = _parquet(data)
    return files


def _parquet(data: TokenDataset) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = list(_first_documents(data))
    kind = pa.uint16() if data.dtype.itemsize == 2 else pa.uint32()
    table = pa.table(
        {
            "document": pa.array([number for number, _, _, _ in rows], pa.int64()),
            "num_tokens": pa.array([count for _, count, _, _ in rows], pa.int64()),
            "tokens": pa.array([ids for _, _, ids, _ in rows], pa.list_(kind)),
            "text": pa.array([text for _, _, _, text in rows], pa.string()),
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def _first_documents(data: TokenDataset) -> Iterator[tuple[int, int, list[int], str]]:
    for number in range(min(NUM_DOCUMENTS, data.num_documents or 0)):
        start, stop = data.document_range(number)
        ids = data.tokens(start, min(stop, start + TOKENS_PER_DOCUMENT))
        content = ids[ids != data.end_of_text_id] if stop - start == len(ids) else ids
        yield number, stop - start, ids.tolist(), data.decode(content)
