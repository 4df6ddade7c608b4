"""unpack: the text of a large compressed file is put into the work folder, for all workers to read.

A compressed file can only be read from its beginning. One that is a large part of the input is cut
into units of its compressed bytes (`text/inputs/units.py`). The task that unpacks it notes in
`N.ends` where the text of each unit ends (8 bytes each), and units of `N.text` are then read as
those of any text file.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.work_folder import WorkFolder
from tokenmill.text.inputs.open_input import InputStream
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.chunks import Chunk, ReadRules
from tokenmill.text.reading.read import check_unchanged, read_unit

_BLOCK_BYTES = 1 << 20


def _units_of(plan: Plan, source: int) -> range:
    first = bisect_left(plan.units, source, key=lambda unit: unit.source)
    return range(first, bisect_right(plan.units, source, key=lambda unit: unit.source))


def unpack_file(out_dir: str, number: int) -> Receipt:
    """Task: leave the text of one file."""
    plan = load_plan(out_dir)
    name = plan.packed_sources[number]
    source = plan.sources[name]
    units = _units_of(plan, name)
    files = [f"{name}.text", f"{name}.ends"]
    check_unchanged(source)
    with (
        plan.workspace.new("unpacked", files[0]) as text,
        plan.workspace.new("unpacked", files[1]) as ends,
        InputStream(source.path, source.compression, source.name) as stream,
    ):
        for unit in units:
            is_last = unit == units[-1]
            while is_last or stream.raw_position < plan.units[unit].stop:
                if not (data := stream.read(_BLOCK_BYTES)):
                    break
                text.write(data)
            ends.write(stream.position.to_bytes(8, "little"))
    check_unchanged(source)
    return plan.workspace.leave_receipt("unpacked", str(number), files, {})


def unpacked_chunks(plan: Plan, unit: int, rules: ReadRules) -> Iterator[Chunk]:
    """Yield the chunks of a unit; all together cover its compressed bytes, not its text."""
    packed = plan.units[unit]
    number = unit - _units_of(plan, packed.source).start
    with plan.workspace.open("unpacked", f"{packed.source}.ends") as file:
        ends = np.frombuffer(file.read(), "<u8").tolist()
    start, stop = [0, *ends][number : number + 2]
    assert isinstance(plan.workspace, WorkFolder)  # in a bucket there is no room for text
    text = plan.workspace.path("unpacked", f"{packed.source}.text")
    about = text.stat()
    source = replace(
        plan.sources[packed.source],
        path=str(text),
        size=about.st_size,
        mtime_ns=about.st_mtime_ns,
        compression=None,
    )
    left = packed.stop - packed.start
    per_byte = left / max(1, stop - start)
    if start < stop or packed.start == 0:
        for chunk in read_unit(source, Unit(packed.source, start, stop), rules):
            chunk.bytes_in = min(left, int(chunk.bytes_in * per_byte))
            left -= chunk.bytes_in
            yield chunk
    if left:
        yield Chunk([], bytes_in=left)
