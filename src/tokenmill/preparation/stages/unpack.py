"""unpack: the text of a large compressed file is put into the work folder, for all workers to read.

A compressed file can only be read from its beginning. One that is a large part of the input is cut
into units of its compressed bytes (`text/inputs/units.py`). Whoever unpacks it notes where the text
of each unit ends, and units are then read as those of any text file:

    unpacked/N.text    the text of source N
    unpacked/N.ends    where the text of each of its units ends, as far as it is known: 8 bytes each

On one machine this happens in threads beside the stage that reads first (`Unpacking`): a unit is
read as soon as its text is there. Elsewhere it is a stage of its own.
"""

import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.text.inputs.decompress import InputStream
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.chunks import Chunk, ReadRules
from tokenmill.text.reading.read import check_unchanged, is_settled, read_part

_BLOCK_BYTES = 1 << 20
_SECONDS_BETWEEN_LOOKS = 0.02
_WORD = np.dtype("<u8")


def _units_of(plan: Plan, source: int) -> range:
    first = bisect_left(plan.units, source, key=lambda unit: unit.source)
    return range(first, bisect_right(plan.units, source, key=lambda unit: unit.source))


def unpack_file(out_dir: str, number: int, check: Callable[[], None] = lambda: None) -> Receipt:
    """Task: leave the text of one file; `check` is called now and then, and may raise."""
    plan = load_plan(out_dir)
    name = plan.packed_sources[number]
    source = plan.sources[name]
    units = _units_of(plan, name)
    plan.workspace.path("unpacked", "").mkdir(parents=True, exist_ok=True)
    check_unchanged(source)
    with (
        open(_text_file(plan, name), "wb", opener=_without_emptying) as text,
        open(_ends_file(plan, name), "wb", opener=_without_emptying) as ends,
        InputStream(source.path, source.compression, source.name) as stream,
    ):
        for unit in units:
            is_last = unit == units[-1]
            while is_last or stream.raw_position < plan.units[unit].stop:
                check()
                if not (data := stream.read(_BLOCK_BYTES)):
                    break
                text.write(data)
            text.flush()
            ends.write(stream.position.to_bytes(_WORD.itemsize, "little"))
            ends.flush()
        text.truncate()
    check_unchanged(source)
    files = [_text_file(plan, name).name, _ends_file(plan, name).name]
    return plan.workspace.leave_receipt("unpacked", str(number), files, {})


def _without_emptying(path: str, flags: int) -> int:
    """Whoever unpacks the same file at the same time writes the same bytes over ours."""
    return os.open(path, flags & ~os.O_TRUNC, 0o666)


def _text_file(plan: Plan, source: int | str) -> Path:
    return plan.workspace.path("unpacked", f"{source}.text")


def _ends_file(plan: Plan, source: int | str) -> Path:
    return plan.workspace.path("unpacked", f"{source}.ends")


def find_unpacked(plan: Plan, unit: int) -> tuple[Source, Unit]:
    """The file that holds the text of a unit, and the unit as a part of it.

    Whoever reads on from the unit before may have to wait for it.
    """
    source = plan.units[unit].source
    at = unit - _units_of(plan, source).start
    while len(ends := [0, *_known_ends(plan, source)]) < at + 2:
        if len(ends) == 1 and at:
            raise PrepareError(f"{plan.name_of(unit)}: unpacking it was given up", hint=None)
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    path = str(_text_file(plan, source))
    text = replace(plan.sources[source], path=path, size=ends[-1], compression=None)
    return text, Unit(source, ends[at], ends[at + 1])


def _known_ends(plan: Plan, source: int) -> list[int]:
    try:
        data = _ends_file(plan, source).read_bytes()
    except FileNotFoundError:
        return []
    ends: list[int] = np.frombuffer(data, _WORD, len(data) // _WORD.itemsize).tolist()
    return ends


def unpacked_chunks(plan: Plan, unit: int, rules: ReadRules) -> Iterator[Chunk]:
    """The chunks of a unit, of which all together cover its compressed bytes, not its text."""
    packed = plan.units[unit]
    source, text = find_unpacked(plan, unit)
    num_bytes = packed.stop - packed.start
    left = num_bytes
    if text.start < text.stop or packed.start == 0:
        for chunk in read_part(source, text, rules):
            covered = chunk.bytes_in * num_bytes // max(1, text.stop - text.start)
            chunk.bytes_in = min(left, covered)
            left -= chunk.bytes_in
            yield chunk
    if left:
        yield Chunk([], bytes_in=left)


class StoppedError(Exception):
    """Unpacking is of no use any more."""


class Unpacking:
    """Unpacks the files of a plan in threads of this process, as many as there are workers."""

    def __init__(self, plan: Plan, out_dir: str, workers: int, missing: list[int]) -> None:
        self._plan, self._out_dir = plan, out_dir
        self._rules = replace(plan.settings.read_rules, cuts=plan.cuts)
        files = plan.packed_sources
        self._waiting = deque(missing)
        self._is_stopped = threading.Event()
        self._error: BaseException | None = None
        for number in self._waiting:
            _ends_file(plan, files[number]).unlink(missing_ok=True)  # of a run that was killed
        self._threads = [
            threading.Thread(target=self._work, daemon=True)
            for _ in range(min(workers, len(self._waiting)))
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Give up, soon."""
        self._is_stopped.set()

    def finish(self) -> None:
        """Wait until all is unpacked."""
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while (number := self._next()) is not None:
                unpack_file(self._out_dir, number, self._check)
        except StoppedError:
            pass
        except BaseException as error:
            self._error = error
            for source in self._plan.packed_sources:
                _ends_file(self._plan, source).unlink(missing_ok=True)  # nobody shall wait

    def _next(self) -> int | None:
        try:
            return self._waiting.popleft()
        except IndexError:  # not asked for first: another thread may take the last one
            return None

    def _check(self) -> None:
        if self._is_stopped.is_set():
            raise StoppedError

    def units_in_turn(self) -> Iterator[int]:
        """The numbers of all units, each when it can be read; those of other files first."""
        units = range(len(self._plan.units))
        for unit in sorted(units, key=self._plan.is_packed):
            if self._plan.is_packed(unit):
                self._wait_for(unit)
            yield unit

    def _wait_for(self, unit: int) -> None:
        """Wait until the text of a unit is there, and enough after it to know where it ends."""
        units = _units_of(self._plan, self._plan.units[unit].source)
        seen = unit - units.start + 1
        while True:
            known = len(_known_ends(self._plan, self._plan.units[unit].source))
            if known == len(units):
                return
            if known > seen:
                seen = known
                source, part = find_unpacked(self._plan, unit)
                if is_settled(source, part.stop, self._rules):
                    return
            if self._error is not None:
                raise self._error
            time.sleep(_SECONDS_BETWEEN_LOOKS)
