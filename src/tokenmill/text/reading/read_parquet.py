"""Parquet files: one column of text, row group by row group, never a whole file in memory.

Rows are counted from 1.
"""

from collections.abc import Iterator
from typing import Any

from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit, damaged_parquet, open_parquet
from tokenmill.text.reading import bad_input
from tokenmill.text.reading.bad_input import NotReadableError, no_column, short_list
from tokenmill.text.reading.chunks import Chunk, ReadRules, RowReader


def read_parquet(source: Source, unit: Unit, rules: ReadRules) -> Iterator[Chunk]:
    """The documents of some row groups; null is a missing field."""
    import pyarrow

    with open_parquet(source, rules.spool_dir) as parquet:
        metadata = parquet.metadata
        reader = RowReader(source, rules)
        groups = metadata.num_row_groups
        if source.compression:
            unit = Unit(unit.source, 0, groups)
        try:
            path = _find_column(parquet, rules)
        except NotReadableError as bad:
            share = source.size * unit.stop // groups - source.size * unit.start // groups
            yield reader.bad_file(bad, share, first=unit.start == 0)
            return
        row = 1 + sum(metadata.row_group(i).num_rows for i in range(unit.start))
        for group in range(unit.start, unit.stop):
            # Each row group counts for an equal share of the file; its first chunk has all of it.
            covered = source.size * (group + 1) // groups - source.size * group // groups
            about = metadata.row_group(group)
            bytes_per_row = max(1, about.total_byte_size // max(1, about.num_rows))
            num_rows = max(1, min(1 << 16, rules.chunk_bytes // bytes_per_row))
            batches = parquet.iter_batches(num_rows, [group], [".".join(path)], use_threads=False)
            try:
                for batch in batches:
                    chunk = reader.chunk = Chunk([], bytes_in=covered)
                    covered = 0
                    if batch.nbytes > rules.large_document_bytes:
                        rules.on_large(True)
                    num_rows = batch.num_rows
                    texts = _texts(batch, path)
                    del batch  # before the texts are checked: memory
                    _fill(reader, texts, row)
                    del texts
                    row += num_rows
                    yield chunk
            except (pyarrow.ArrowException, OSError) as error:
                raise damaged_parquet(source, error) from error
            if covered:
                yield Chunk([], bytes_in=covered)
        if groups == 0 and unit.start == 0:
            yield Chunk([], bytes_in=source.size)


def _find_column(parquet: Any, rules: ReadRules) -> list[str]:
    """The path to the column: its name, or a dotted path into structs."""
    import pyarrow.types as types

    schema = parquet.schema_arrow
    name = rules.text_field
    path = [name] if name in schema.names else name.split(".")
    kind: Any = None
    fields = {field.name: field.type for field in schema}
    for part in path:
        if part not in fields:
            what = f"no such column; the file has: {short_list(schema.names)}"
            raise no_column(name, what)
        kind = fields[part]
        fields = {f.name: f.type for f in kind} if types.is_struct(kind) else {}
    if types.is_dictionary(kind):
        kind = kind.value_type
    text = (
        types.is_string, types.is_large_string, types.is_binary, types.is_large_binary,
        types.is_string_view, types.is_binary_view,
    )  # fmt: skip
    if not any(is_text(kind) for is_text in text):
        raise no_column(name, f"holds {kind}, not text")
    return path


def _texts(batch: Any, path: list[str]) -> list[bytes | None]:
    import pyarrow
    import pyarrow.compute

    column = batch.column(path[0])
    for part in path[1:]:
        column = pyarrow.compute.struct_field(column, part)
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    texts: list[bytes | None] = column.cast(pyarrow.large_binary()).to_pylist()
    return texts


def _fill(reader: RowReader, texts: list[bytes | None], first_row: int) -> None:
    good = [text for text in texts if text]
    most = reader.rules.max_document_bytes
    fits = len(good) == len(texts) and max(map(len, good), default=0) <= most
    if fits and bad_input.find_not_utf8(b"\n".join(good)) < 0:
        reader.chunk.texts = good
        return
    for row, text in enumerate(texts, first_row):
        if text is None:
            reader.bad_row(row, bad_input.NO_FIELD, f"{reader.what} is null")
        else:
            reader.add(row, text)
    reader.chunk.drop_empty()
