"""Values of documents in Arrow's types, whose types are found as values arrive.

pyarrow is imported when there are values.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from tokenmill.errors import BadInputError

OWN_NAMES = ("source", "row", "byte", "id", "document")
"""Names of facts that every document has, and of its number."""
_FACT = (
    "a fact is text, a number or a boolean, of one type in all rows; repair that row, or leave the "
    "field out"
)


def array_of(name: str, values: Sequence[Any], where: Callable[[int], str]) -> Any:
    """Return values of one type as an array; `where(i)` says where value i is, for errors."""
    import pyarrow as pa

    try:
        array = pa.array(values)
        if not pa.types.is_nested(array.type):
            return array
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    before = pa.null()
    for number, value in enumerate(values):
        kind = _type_of(value)
        found = None if kind is None else unified(before, kind)
        if found is None:
            raise other_type(where(number), name, value, before)
        before = found
    raise other_type(where(0), name, "an integer of over 53 bits in the same field", before)


def other_type(where: str, name: str, value: Any, before: Any) -> BadInputError:
    """Return the error for a value that is no fact, or of another type than those before it."""
    kind = "of no plain type" if _type_of(value) is None else str(_type_of(value))
    others = "" if str(before) == "null" else f", and the values before it are {before}"
    return BadInputError(f"{where}: {name!r} is {value!r:.80} ({kind}){others}", hint=_FACT)


def _type_of(value: Any) -> Any:
    import pyarrow as pa

    try:
        kind = pa.array([value]).type
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return None if pa.types.is_nested(kind) else kind


def unified(one: Any, other: Any) -> Any:
    """Return the type that holds values of both, or None."""
    import pyarrow as pa

    schemas = [pa.schema([("x", kind)]) for kind in (one, other)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    except (pa.ArrowException, TypeError):
        return None


def to_streams(batches: Iterable[Any]) -> Iterator[bytes]:
    """Yield record batches as Arrow IPC streams, one for neighbours of the same types."""
    import pyarrow as pa

    for schema, group in groupby(batches, lambda batch: batch.schema):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in group:
                writer.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def from_streams(data: Any) -> Iterator[Any]:
    """Yield the record batches of streams that follow one another in a buffer."""
    if not len(data):
        return
    import pyarrow as pa

    source = pa.BufferReader(data)
    while source.tell() < len(data):
        yield from pa.ipc.open_stream(source)
