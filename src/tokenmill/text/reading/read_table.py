"""Parquet and Arrow files: columns of text, group by group of rows, never a whole file in memory.

Rows are counted from 1.
"""

from collections.abc import Iterator
from typing import Any

from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.tables import damaged_table, open_table
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading import bad_input
from tokenmill.text.reading.bad_input import NotReadableError, no_column, short_list
from tokenmill.text.reading.chunks import Chunk, ReadRules, RowReader


def read_table(source: Source, unit: Unit, rules: ReadRules) -> Iterator[Chunk]:
    """The documents of some groups of rows; null is a missing field."""
    import pyarrow

    with open_table(source, rules.spool_dir) as table:
        reader = RowReader(source, rules)
        groups = len(table.sizes)
        if not source.has_groups:
            unit = Unit(unit.source, 0, groups)
        # Each group counts for an equal share of the file; its first chunk has all of it.
        ends = [source.size * group // max(1, groups) for group in range(groups + 1)]
        done = ends[unit.start] if groups else 0
        covers = ends[unit.stop] if groups else source.size
        try:
            if rules.row_fields:
                paths = _paths_of_rows(table.schema, rules)
            else:
                paths = [find_column(table.schema, name) for name in rules.fields.names]
        except NotReadableError as bad:
            yield reader.bad_file(bad, covers - done, first=unit.start == 0)
            return
        row = 1 + sum(table.rows[: unit.start])
        try:
            for group, batch in table.read(unit.start, unit.stop, paths, rules.chunk_bytes):
                chunk = reader.chunk = Chunk([], bytes_in=ends[group + 1] - done)
                done = ends[group + 1]
                if batch.nbytes > rules.large_document_bytes:
                    rules.on_large(True)
                num_rows = batch.num_rows
                if rules.text_of_row is not None:
                    _fill_from_rows(reader, batch.to_pylist(), row)
                else:
                    columns = [_texts(batch, path) for path in paths]
                    del batch  # before the texts are checked: memory
                    _fill(reader, columns, row)
                    del columns
                row += num_rows
                yield chunk
        except (pyarrow.ArrowException, OSError) as error:
            raise damaged_table(source, error) from error
        if done < covers:
            yield Chunk([], bytes_in=covers - done)


def find_column(schema: Any, name: str) -> list[str]:
    """The path to the column: its name, or a dotted path into structs."""
    import pyarrow.types as types

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


def _paths_of_rows(schema: Any, rules: ReadRules) -> list[list[str]]:
    """The columns of values that become text together; all but the first may be missing."""
    if rules.row_fields[0] not in schema.names:
        what = f"no such column; the file has: {short_list(schema.names)}"
        raise no_column(rules.row_fields[0], what)
    return [[name] for name in rules.row_fields if name in schema.names]


def _fill_from_rows(reader: RowReader, rows: list[Any], first_row: int) -> None:
    assert reader.rules.text_of_row is not None
    for number, row in enumerate(rows, first_row):
        try:
            reader.add(number, reader.rules.text_of_row(row))
        except NotReadableError as bad:
            reader.bad_row(number, bad.reason, bad.what, bad.hint)
    reader.chunk.drop_empty()


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


def _fill(reader: RowReader, columns: list[list[bytes | None]], first_row: int) -> None:
    fields = reader.rules.fields
    texts = columns[0]
    if fields.is_template:
        texts = [None if None in row else fields.join(row) for row in zip(*columns, strict=True)]
    good = [text for text in texts if text]
    most = reader.rules.max_document_bytes
    fits = len(good) == len(texts) and max(map(len, good), default=0) <= most
    if fits and bad_input.find_not_utf8(b"\n".join(good)) < 0:
        reader.chunk.texts = good
        return
    for row, text in enumerate(texts, first_row):
        if text is None:
            values = zip(fields.names, columns, strict=True)
            null = next(name for name, column in values if column[row - first_row] is None)
            reader.bad_row(row, bad_input.NO_FIELD, f"column {null!r} is null")
        else:
            reader.add(row, text)
    reader.chunk.drop_empty()
