"""Damaged files, given to all that reads files: an error of ours, or the right data.

A child process reads a batch of them, with little memory to spare. Should it crash, or hang, the
case is known by its number, and the next child continues after it.
"""

import importlib
import json
import os
import random
import resource
import select
import shutil
import signal
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from faults.readers import READERS, Reader
from faults.tally import Tally
from small_corpus import files_of

from tokenmill.errors import TokenmillError

BATCH = 500
SLOW_SHARE = 10  # a slow reader gets one case where others get so many
HANGS_AFTER = 60.0  # seconds for one file
SLOW_AFTER = 10.0  # seconds of the processor
SPARE_MEMORY = 1 << 30  # bytes that a child may take beyond what it starts with


def fuzz(tally: Tally, scratch: Path, names: Sequence[str], most: int, first: int = 0) -> None:
    """Damage and read `most` files of each kind; case number N of a seed is always the same."""
    fuzz_readers(tally, scratch, [READERS[name] for name in names], most, first)


def fuzz_readers(
    tally: Tally, scratch: Path, readers: Sequence[Reader], most: int, first: int = 0
) -> None:
    """The same for readers that are given."""
    for reader in readers:
        for module in reader.imports:
            importlib.import_module(module)
        folder = scratch / "sound"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        _in_child(lambda reader=reader, folder=folder: reader.make(folder))
        number, stop = first, first + (most // SLOW_SHARE if reader.slow else most)
        while number < stop:
            number = _read_batch(tally, reader, folder, number, min(stop, number + BATCH))


def _in_child(make) -> None:
    """Make the sound files without a trace in this process: threads, imports."""
    pid = os.fork()
    if pid == 0:
        try:
            make()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def _read_batch(tally: Tally, reader: Reader, folder: Path, first: int, stop: int) -> int:
    """Read cases from `first` on in a child; the number of the first case that it left."""
    report = folder.parent / "report"
    report.unlink(missing_ok=True)
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        try:
            _child(tally.seed, reader, folder, range(first, stop), theirs, report)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)  # what the parent has to clean up stays
    os.close(theirs)
    done, hung = _count_cases(ours, pid)
    os.close(ours)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for line in report.read_text().splitlines() if report.exists() else ():
        ended, why = json.loads(line)
        tally.fail(reader.name, why) if ended == "failed" else tally.add(reader.name, ended)
    tally.add(reader.name, reader.counted, done)
    if first + done < stop:
        how = f"no answer for {HANGS_AFTER:.0f} s" if hung else f"the process ended with {code}"
        tally.add(reader.name, reader.counted)
        tally.fail(reader.name, f"case {first + done}: {how}")
        done += 1
    return first + done


def _count_cases(progress: int, pid: int) -> tuple[int, bool]:
    """How many cases a child has done when it ends, and whether it hung and was killed."""
    done = 0
    while True:
        ready, _, _ = select.select([progress], [], [], HANGS_AFTER)
        if not ready:
            os.kill(pid, signal.SIGKILL)
            return done, True
        found = os.read(progress, 4096)
        if not found:
            return done, False
        done += len(found)


def _child(
    seed: int, reader: Reader, folder: Path, cases: range, progress: int, report: Path
) -> None:
    copy = folder.parent / "damaged"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    sound = files_of(folder)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)  # libraries print what they think of a file
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + SPARE_MEMORY, size + SPARE_MEMORY))
    with report.open("w") as results:
        for number in cases:
            results.write(json.dumps(_try(seed, reader, copy, sound, number)) + "\n")
            results.flush()
            os.write(progress, b".")
    os._exit(0)


def _try(
    seed: int, reader: Reader, copy: Path, sound: dict[str, bytes], number: int
) -> tuple[str, str]:
    """How case `number` ended, and why if it failed."""
    chance = random.Random(f"{seed} {reader.name} {number}")
    name = chance.choice(sorted(name for name in sound if reader.damages(name)))
    damaged = reader.mutate(sound[name], chance)
    (copy / name).write_bytes(damaged)
    started = time.process_time()
    try:
        reader.read(copy, sound)
        ended, why = "read", ""
    except (TokenmillError, *reader.also) as error:
        ended, why = "refused", "" if str(error).strip() else "an error without words"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        ended, why = (
            "failed",
            f"{type(error).__name__}: {str(error)[:200]!r} at {last.filename}:{last.lineno}",
        )
    finally:
        (copy / name).write_bytes(sound[name])
    if (took := time.process_time() - started) > SLOW_AFTER:
        why = f"took {took:.1f} s"
    return ("failed", f"case {number} ({name}): {why}") if why else (ended, "")
