"""Take the power away at every moment of a command: only what was synced is sure to be there.

The calls of one run are recorded with all bytes. Two things follow from them, without a disk:

1. What has its final name was synced before, with all that it stands for, and its folder after it:
   checked at every rename, and at the end for all that was made.
2. The folder as it may be after a loss of power between any two calls: only what was synced; all
   names, but no bytes that were not synced; or some of both. There, a reader sees what was before
   or what should be, `verify` ends with a result or an error of ours, and so does the command
   when it is given again; after its end, all that it made is there.
"""

import fnmatch
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from faults.case import Case, Files
from faults.forks import Forks
from faults.operations import OPERATIONS, serving_shards
from faults.tally import Tally
from faults.trace import OPTIONS, Call, Disk, read_trace

import tokenmill
from tokenmill.errors import TokenmillError

LOSSES = (("synced", "synced"), ("all", "synced"), ("some", "some"))
QUIET = ("read", "lseek", "close", "dup", "dup2", "dup3", "fcntl", "mmap")


def lose_writes(tally: Tally, scratch: Path, names: Sequence[str], most: int) -> None:
    """Lose the power at up to `most` moments of each operation, and at its end."""
    with serving_shards() as environ:
        for name in names:
            with Forks([name], environ) as forks:
                case = Case(OPERATIONS[name], scratch, forks)
                calls = record(case)
                for wrong in unsynced(case, calls):
                    tally.fail(name, wrong)
                tally.add(name, "calls", len(calls))
                changes = [n for n, call in enumerate(calls, 1) if call.name not in QUIET]
                chance = random.Random(f"{tally.seed} {name}")
                moments = sorted(chance.sample(changes, min(most, len(changes))))
                _lose(tally, case, calls, {*moments, len(calls)}, chance)


def record(case: Case) -> list[Call]:
    """The calls of a run that nobody disturbs."""
    log = case.folder.with_suffix(".calls")
    case.fresh()
    ended = case.run(["-o", str(log), *OPTIONS])
    assert ended.code == 0, ended.said
    found = list(read_trace(log))
    log.unlink()
    return found


def unsynced(case: Case, calls: Sequence[Call]) -> list[str]:
    """What has its final name too early, and what is not sure to be there at the end."""
    disk, wrong = Disk(case.before, case.folder), []
    for number, call in enumerate(calls, 1):
        name = disk.apply(call)
        if name is None or not _matches(name, case.operation.commits):
            continue
        for each, what in _unsynced_of(case, disk):
            is_below = f"{each}/".startswith(f"{name}/") or _stands_for_all(case, name)
            if is_below and (each, what) != (name, "name"):  # a new name is synced after it
                wrong.append(f"call {number}, {call.name} to {name}: the {what} of {each} is lost")
    return wrong + [
        f"at the end, the {what} of {each} is lost" for each, what in _unsynced_of(case, disk)
    ]


def _stands_for_all(case: Case, name: str) -> bool:
    """Whether it is what makes all the rest visible, such as a manifest."""
    return case.operation.appears == "at once" and name in case.operation.commits


def _unsynced_of(case: Case, disk: Disk) -> list[tuple[str, str]]:
    """What a loss of power may take of what the operation makes."""
    return [
        (name, what)
        for name, what in disk.unsynced()
        if case.published({name: b""}) and not _matches(name, case.operation.loses)
    ]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _lose(
    tally: Tally, case: Case, calls: Sequence[Call], moments: set[int], chance: random.Random
) -> None:
    disk = Disk(case.before, case.folder)
    for number, call in enumerate(calls, 1):
        disk.apply(call)
        if number not in moments:
            continue
        for names, data in LOSSES:
            _write(case.folder, disk.after_a_loss(names, data, chance))
            where = f"after call {number} ({call.name}), names: {names}, data: {data}"
            _expect(tally, case, where, is_done=number == len(calls))


def _write(folder: Path, files: dict[str, bytes | None]) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    for name, data in files.items():
        if data is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(data)
    for boot in folder.rglob(".preparation/boot"):
        boot.write_text("an earlier one")  # the machine was started again


def _expect(tally: Tally, case: Case, where: str, *, is_done: bool) -> None:
    name = case.operation.name
    tally.add(name, "losses of power")
    wrong = case.wrongly_visible(after_a_loss=True)
    if is_done:
        wrong += _lost(case)
    try:
        if (case.folder / case.operation.made).is_dir():
            tokenmill.verify(case.folder / case.operation.made, full=True)
    except TokenmillError:
        pass
    except Exception as error:
        wrong.append(f"verify: {error!r}")
    ended = case.run()
    # Work that is done may be left for good: what says that it is done was lost.
    differences = [each for each in case.differences() if "/.preparation/" not in each]
    if case.resumes(ended) and not differences:
        tally.add(name, "came to the same files")
    elif ended.code and all(word in ended.said for word in ("error: ", "hint: ")):
        tally.add(name, "refused")
        wrong += case.wrongly_visible(after_a_loss=True)
    else:
        wrong.append(f"again: {ended.code} {ended.said[-500:]} {differences}")
    if wrong:
        tally.fail(name, f"{where}: {wrong}")


def _lost(case: Case) -> list[str]:
    """What a command that has ended made, and is not there."""
    from small_corpus import files_of

    found: Files = files_of(case.folder)
    return [
        f"{name} is lost"
        for name, data in case.published(case.after).items()
        if not _matches(name, [*case.operation.loses, *case.operation.varies])
        if not case.is_same(name, found.get(name), data)
    ]
