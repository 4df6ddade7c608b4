"""Fail every system call of a command once, with each error that the call can give.

The command must end with an error of ours, or come to the right files in spite of it. Then the
same command again must come to the same files, and leave nothing else.
"""

import os
import random
from collections.abc import Sequence
from pathlib import Path

from faults.case import Case
from faults.forks import Forks
from faults.operations import OPERATIONS
from faults.tally import Tally

ERRORS = {
    ("read", "pread64", "preadv2"): ("EIO", "EINTR"),
    ("write", "writev", "pwrite64"): ("EIO", "ENOSPC", "EINTR"),
    ("openat",): ("EIO", "ENOSPC", "EACCES", "EMFILE", "ENOMEM", "EINTR"),
    ("newfstatat", "fstat", "stat", "lstat", "statx", "access"): ("EIO", "EACCES", "ENOMEM"),
    ("mkdir", "rename", "link", "symlink", "ftruncate"): ("EIO", "ENOSPC", "EACCES"),
    ("unlink", "unlinkat", "rmdir"): ("EIO", "EACCES"),
    ("fsync", "fdatasync"): ("EIO", "ENOSPC", "EINTR"),
    ("close",): ("EIO", "ENOSPC"),
    ("getdents64", "statfs", "readlink", "getcwd"): ("EIO", "ENOMEM"),
    ("mmap", "brk", "mremap"): ("ENOMEM",),
    ("fcntl",): ("EMFILE", "ENOMEM"),
    ("ioctl",): ("EIO",),
}
# These never fail on files, or are of the interpreter: its signals, its locks, its end.
NEVER_FAIL = {
    "lseek",
    *("getpid", "gettid", "getrandom", "uname", "munmap", "madvise", "futex", "exit_group", "exit"),
    *("rt_sigaction", "rt_sigprocmask", "rt_sigtimedwait", "rt_sigreturn", "prlimit64"),
    *("clock_gettime", "sched_getaffinity", "sched_yield", "set_robust_list", "rseq"),
}
ERRORS_OF = {call: errors for calls, errors in ERRORS.items() for call in calls}


def fail_calls(tally: Tally, scratch: Path, names: Sequence[str], most: int | None) -> None:
    """Every call of these operations with every error, or `most` of them, chosen at random."""
    for name in names:
        with Forks([name]) as forks:
            case = Case(OPERATIONS[name], scratch, forks)
            calls = case.calls()
            faults = [
                (call, number + 1, error)
                for call, errors in ERRORS_OF.items()
                for number in range(calls[call])
                for error in errors
            ]
            tally.add(name, "calls", sum(calls[call] for call in ERRORS_OF))
            for call in calls.keys() - ERRORS_OF.keys() - NEVER_FAIL:  # of another kernel or libc
                tally.add(name, f"calls of {call}, left alone", calls[call])
            if most is not None:
                random.Random(f"{tally.seed} {name}").shuffle(faults)
            for fault in faults[:most]:
                _fail_and_resume(tally, case, *fault)


def _fail_and_resume(tally: Tally, case: Case, call: str, number: int, error: str) -> None:
    name, where = case.operation.name, f"{call} {number} {error}"
    case.fresh()
    # brk has no errors: it returns another end than was asked for.
    how = "retval=0" if call == "brk" else f"error={error}"
    inject = f"inject={call}:{how}:when={number}"
    ended = case.run(["-o", os.devnull, "-e", f"trace={call}", "-e", inject])
    tally.add(name, "failed calls")
    if ended.code == 0:
        wrong = case.differences()
        if "Traceback" in ended.said or "Exception ignored" in ended.said:
            wrong.append(f"printed {ended.said[-500:]}")
        tally.fail(name, f"{where}: {wrong}") if wrong else tally.add(name, "came to its end")
        return
    if ended.code not in (1, 10, 11, 12, 13) or "error: " not in ended.said:
        tally.fail(name, f"{where}: {ended.code} {ended.said[-500:]}")
        return
    if wrong := case.wrongly_visible():
        tally.fail(name, f"{where}: {wrong}")
        return
    again = case.run()
    wrong = case.differences()
    if case.resumes(again) and not wrong:
        tally.add(name, "named the fault, then resumed")
    else:
        tally.fail(name, f"{where}: {ended.said[-300:]}; again: {again.code} {wrong}")
