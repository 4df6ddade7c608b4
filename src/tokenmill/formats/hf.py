"""Parquet files with a column `input_ids`, one document a row: what TRL and axolotl train on.

Data with the column `loss` has `labels` next to them: the ids, and -100 where there is no loss; a
model of transformers shifts them itself. Only written. `datasets.load_dataset(FOLDER)` finds the
splits by the folders `train` and `val`. A row group has about a million tokens, so that a reader
needs little memory.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from tokenmill.base.atomic import sync_open_file
from tokenmill.errors import CorruptShardError, MissingExtraError
from tokenmill.formats.format import TokenFormat
from tokenmill.formats.samples import SampleWriter
from tokenmill.formats.writing import Values, Writer

TOKENS_PER_GROUP = 1 << 20
NO_LABEL = -100


class HfWriter(SampleWriter):
    """One split as Parquet files of whole documents, each read back and compared."""

    file_name = "{number:05d}.parquet"

    def open_shard(self) -> None:
        super().open_shard()
        self._labels: list[np.ndarray] = []

    def write(self, tokens: np.ndarray, columns: Values) -> None:
        super().write(tokens, columns)
        if columns:
            self._labels.append(np.where(columns["loss"], tokens.astype(np.int32), NO_LABEL))

    def write_shard(self, number: int, documents: list[np.ndarray]) -> dict[str, Any]:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtraError(
                "writing Parquet", package="pyarrow", extra="parquet"
            ) from error
        table = pa.table({"input_ids": pa.array(documents, pa.list_(pa.int32()))})
        ends = np.cumsum([len(each) for each in documents])
        if self._labels:
            labels = np.split(np.concatenate(self._labels), ends[:-1])
            table = table.append_column("labels", pa.array(labels, table.schema.types[0]))
        groups = ends // TOKENS_PER_GROUP
        firsts = np.flatnonzero(np.diff(groups, prepend=-1)).tolist()
        with self.path().open("xb") as file:
            with parquet.ParquetWriter(file, table.schema, compression="zstd") as writer:
                for first, stop in pairwise([*firsts, len(documents)]):
                    writer.write_table(table.slice(first, stop - first))
            sync_open_file(file)
        if not parquet.read_table(self.path()).equals(table):
            raise CorruptShardError(
                f"{self.path()} is not what was written",
                hint="the disk or the memory is failing; nothing was left there",
            )
        return {}

    def close(self) -> int:
        return Writer.close(self)  # there is no index


class Hf(TokenFormat):
    """Documents as rows of ids."""

    name = "hf"
    writer = HfWriter
    holds = ("loss",)
    dtypes = ("int32",)
    tokens_per_shard = 1 << 25
    max_tokens_per_shard = 1 << 28
    is_indexed = True
    documents_by_id = False
    compares_itself = True
