"""What Linux, macOS and Windows say about a machine and its processes.

The three differ in what they have. Every call that one of them lacks is here, in descriptors.py, in
child_process.py or in signals.py, with an equal for the others; tests/house/test_platforms.py finds
such calls elsewhere. docs/guides/platforms.md says what differs for users.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

LIMITS_OF_WINDOWS = {"RLIMIT_NOFILE": 8192}  # of its C library


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def host_name() -> str:
    """Return the name of this machine."""
    if sys.platform == "win32":
        return os.environ.get("COMPUTERNAME", "this machine")
    return os.uname().nodename


def boot_id() -> str | None:
    """Return what changes when this machine is started again; None if it does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None


def process_start(pid: object) -> str | None:
    """Return when a process of this machine started; None if there is no such process."""
    if not isinstance(pid, int) or pid <= 0:
        return None
    if sys.platform == "win32":
        return _start_on_windows(pid)
    if sys.platform != "linux":
        return _start_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]  # in ticks since boot


def _start_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    found = subprocess.run(command, env=environment, capture_output=True, check=False)
    state, _, start = found.stdout.decode("ascii", "replace").strip().partition(" ")
    return None if not start or state.startswith("Z") else start.strip()


if sys.platform == "win32":

    def _start_on_windows(pid: int) -> str | None:
        import ctypes

        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = ctypes.c_void_p(kernel.OpenProcess(0x1000, False, pid))  # to ask about it
        if not handle:
            return "of another user" if ctypes.get_last_error() == 5 else None  # access denied
        code = ctypes.c_uint32()
        times = [ctypes.c_uint64() for _ in range(4)]  # creation, exit, in kernel, in process
        try:
            kernel.GetExitCodeProcess(handle, ctypes.byref(code))
            kernel.GetProcessTimes(handle, *map(ctypes.byref, times))
        finally:
            kernel.CloseHandle(handle)
        return str(times[0].value) if code.value == 259 else None  # still active


def process_bytes(*, resident: bool) -> int | None:
    """Memory of this process, or its address space; None if the system does not say."""
    if sys.platform != "linux":
        return None
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[resident]) * os.sysconf("SC_PAGE_SIZE")


def limit_of(name: str) -> int | None:
    """Return what `ulimit` allows this process: RLIMIT_AS, RLIMIT_NOFILE; None without a limit."""
    if sys.platform == "win32":
        return LIMITS_OF_WINDOWS.get(name)
    import resource

    limit = resource.getrlimit(getattr(resource, name))[0]
    return None if limit == resource.RLIM_INFINITY else limit


def physical_memory() -> int:
    """Bytes that this machine has; where it does not say, more than any dataset."""
    if sys.platform == "win32":
        return 1 << 62
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def processor() -> bytes:
    """Return the first lines that Linux has about the processor; empty elsewhere."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            return file.read(1 << 12)
    except OSError:
        return b""


def after_fork(function: Callable[[], None]) -> None:
    """Call a function in each process that is forked from this one; Windows does not fork."""
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=function)


def output_encoding() -> str | None:
    """Return how text is written to a terminal or a pipe; None: as Python does by itself."""
    return "utf-8" if sys.platform == "win32" else None


def may_reuse_port() -> bool:
    """Return True if a port is free again when its server ends; on Windows two could share it."""
    return sys.platform != "win32"


def portable_path(path: str) -> str:
    """Return an absolute path with slashes, such as /text/a.txt or /C:/text/a.txt."""
    if sys.platform == "win32":
        path = path.replace("\\", "/")
        return path if path.startswith("/") else f"/{path}"
    return path
