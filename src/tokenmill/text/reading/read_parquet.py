"""Parquet files: one column of text, row group by row group, never a whole file in memory.

Rows are counted from 1.
"""

from collections.abc import Iterator
from typing import Any

from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit, damaged_parquet, open_parquet
from tokenmill.text.reading.bad_input import (
    NO_FIELD,
    NOT_UTF8,
    TOO_LARGE,
    BadHeaderError,
    TooLargeError,
    find_not_utf8,
    no_column,
    replace_not_utf8,
    short_list,
)
from tokenmill.text.reading.chunks import Chunk, ReadRules, bad_file, bad_row


def read_parquet(source: Source, unit: Unit, rules: ReadRules, chunk_bytes: int) -> Iterator[Chunk]:
    """The documents of some row groups; null is a missing field."""
    import pyarrow

    with open_parquet(source, rules.spool_dir) as parquet:
        metadata = parquet.metadata
        groups = metadata.num_row_groups
        if source.compression:
            unit = Unit(unit.source, 0, groups)
        try:
            path = _find_column(parquet, rules)
        except BadHeaderError as bad:
            share = source.size * unit.stop // groups - source.size * unit.start // groups
            yield bad_file(bad, share, source, rules, first=unit.start == 0)
            return
        row = 1 + sum(metadata.row_group(i).num_rows for i in range(unit.start))
        for group in range(unit.start, unit.stop):
            # Each row group counts for an equal share of the file; its first chunk has all of it.
            covered = source.size * (group + 1) // groups - source.size * group // groups
            batches = parquet.iter_batches(
                _rows_of_batch(metadata.row_group(group), chunk_bytes),
                [group],
                [".".join(path)],
                use_threads=False,
            )
            try:
                for batch in batches:
                    chunk = Chunk([], offset=row, bytes_in=covered)
                    covered = 0
                    is_large = batch.nbytes > rules.large_document_bytes
                    if is_large:
                        rules.on_large(True)
                    row += batch.num_rows
                    texts = _texts(batch, path)
                    del batch  # before the texts are checked: memory
                    _fill(chunk, texts, source, rules)
                    del texts
                    yield chunk
                    if is_large:
                        del chunk
                        rules.on_large(False)
            except (pyarrow.ArrowException, OSError) as error:
                raise damaged_parquet(source, error) from error
            if covered:
                yield Chunk([], offset=row, bytes_in=covered)
        if groups == 0 and unit.start == 0:
            yield Chunk([], bytes_in=source.size)


def _rows_of_batch(group: Any, chunk_bytes: int) -> int:
    """Rows of about `chunk_bytes` bytes, from the mean of the row group."""
    bytes_per_row: int = max(1, group.total_byte_size // max(1, group.num_rows))
    return max(1, min(1 << 16, chunk_bytes // bytes_per_row))


def _find_column(parquet: Any, rules: ReadRules) -> list[str]:
    """The path to the column: its name, or a dotted path into structs."""
    import pyarrow.types as types

    schema, name = parquet.schema_arrow, rules.text_field
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


def _fill(chunk: Chunk, texts: list[bytes | None], source: Source, rules: ReadRules) -> None:
    good = [text for text in texts if text]
    largest = max(map(len, good), default=0)
    fits = len(good) == len(texts) and largest <= rules.max_document_bytes
    if fits and find_not_utf8(b"\n".join(good)) < 0:
        chunk.texts = good
        return
    column = f"column {rules.text_field!r}"
    for row, text in enumerate(texts, chunk.offset):
        if text is None:
            bad_row(chunk, source, rules, row, NO_FIELD, f"{column} is null")
        elif not text:
            chunk.leave_out_empty()
        elif len(text) > rules.max_document_bytes:
            if rules.on_bad_input == "error":
                what = f"{column} has more than {rules.max_document_bytes:,} bytes"
                raise TooLargeError(source, f", row {row:,}", what, len(text))
            chunk.leave_out(TOO_LARGE, "row", row)
        elif (at := find_not_utf8(text)) < 0:
            chunk.texts.append(text)
        elif rules.on_bad_input == "replace":
            chunk.texts.append(replace_not_utf8(text))
            chunk.repaired(NOT_UTF8, "row", row)
        else:
            what = f"not UTF-8 at byte {at:,} of {column}"
            bad_row(chunk, source, rules, row, NOT_UTF8, what)
