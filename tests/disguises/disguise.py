"""Linux in the disguise of another system: what that system lacks is hidden from tokenmill.

    DISGUISE=windows PYTHONPATH=tests/disguises python -m pytest tests/base

The variable goes to child processes as well. What a module of tokenmill imports is replaced:
modules that the system lacks cannot be imported, names that it lacks are not there, and what it has
instead is there, made from what Linux has. Other packages see Linux as it is. What a system
forbids, such as to replace a file that is open, is forbidden to whatever tokenmill calls.

This is not that system: paths have slashes, names of files differ by case, and what stands for
`msvcrt` or `kernel32` does what their documentation says, as far as tokenmill asks for it.
"""

import builtins
import ctypes
import errno
import fcntl
import mmap
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types

PLATFORMS = {"linux": "linux", "macos": "darwin", "windows": "win32"}
LINUX_ONLY = """
sched_getaffinity sched_setaffinity posix_fallocate posix_fadvise memfd_create copy_file_range
splice eventfd getrandom pidfd_open setns unshare getxattr setxattr listxattr O_DIRECT
O_TMPFILE O_PATH
""".split()  # noqa: SIM905
UNIX_ONLY = """
fork forkpty register_at_fork getuid geteuid getgid getegid getgroups setuid setgid setsid getpgid
setpgid killpg nice uname getloadavg sysconf pathconf fpathconf statvfs fstatvfs pread preadv pwrite
pwritev mkfifo mknod chown lchown fchown fchdir chroot fdatasync lockf sync wait wait3 wait4 WNOHANG
get_blocking set_blocking posix_spawn openpty ttyname ctermid sendfile O_CLOEXEC O_NOFOLLOW
O_NONBLOCK O_DIRECTORY O_SYNC O_DSYNC O_NOCTTY readv writev
""".split()  # noqa: SIM905
_WINDOWS_SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIGBREAK"}
_BINARY = 1 << 28  # bits that open(2) does not look at
_NO_INHERIT = 1 << 29
_ours = threading.local()  # true while the disguise itself looks at /proc


class Proxy(types.ModuleType):
    """A module without some of its names, and with others."""

    def __init__(self, module, hidden=(), **instead):
        super().__init__(module.__name__)
        vars(self).update(instead)
        self._module, self._hidden = module, frozenset(hidden)

    def __getattr__(self, name):
        if name in self._hidden:
            raise AttributeError(f"module {self._module.__name__!r} has no attribute {name!r}")
        return getattr(self._module, name)


def put_on(system):
    """Disguise this process from now on; no module of tokenmill is imported yet."""
    assert not any(name.partition(".")[0] == "tokenmill" for name in sys.modules)
    modules = {"sys": Proxy(sys, platform=PLATFORMS[system])}
    missing = set()
    if system != "linux":
        modules["os"] = Proxy(os, LINUX_ONLY)
        modules["fcntl"] = Proxy(fcntl, F_FULLFSYNC=fcntl.F_GETFD, fcntl=full_sync)
        sys.addaudithook(forbid_proc)
        multiprocessing.set_start_method("spawn")
    if system == "windows":
        os.environ.setdefault("COMPUTERNAME", os.uname().nodename)
        modules |= windows_modules()
        missing = {"fcntl", "resource", "pwd", "grp", "termios", "posix", "tty", "pty", "crypt"}
        sys.addaudithook(forbid_like_windows)
        os.fork = no_fork
        del multiprocessing.context._concrete_contexts["fork"]
    replace_imports(modules, missing)


def replace_imports(modules, missing):
    """Give these modules to tokenmill's own, and raise for what is missing."""
    true_import = builtins.__import__

    def import_(name, globals=None, locals=None, fromlist=(), level=0):
        importer = (globals or {}).get("__name__", "")
        if level == 0 and importer.partition(".")[0] == "tokenmill":
            if name in missing:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in modules:
                return modules[name]
        return true_import(name, globals, locals, fromlist, level)

    builtins.__import__ = import_


def calls_come_from_tokenmill():
    """Whether a frame of the stack is in tokenmill."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "tokenmill":
            return True
        frame = frame.f_back
    return False


# macOS


def full_sync(descriptor, command, *rest):
    """`fcntl` with F_FULLFSYNC syncs."""
    return os.fsync(descriptor) if command == fcntl.F_GETFD else fcntl.fcntl(descriptor, *rest)


def forbid_proc(event, args):
    """Neither macOS nor Windows has /proc."""
    if event != "open" or not isinstance(args[0], str) or not args[0].startswith("/proc/"):
        return
    if not getattr(_ours, "looks", False) and calls_come_from_tokenmill():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args[0])


# Windows


def windows_modules():
    inheritable = set()

    def check_fsync(descriptor):
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        os.fsync(descriptor)

    def kill(pid, number):
        raise AssertionError(f"on Windows os.kill(pid, {number}) sends Ctrl-C or ends the process")

    def utime(path, *args, **named):
        assert not isinstance(path, int), "Windows sets the times of paths only"
        os.utime(path, *args, **named)

    def start(command, *, startupinfo=None, **options):
        if options.get("pass_fds"):
            raise ValueError("pass_fds not supported on Windows.")
        handles = startupinfo.lpAttributeList["handle_list"] if startupinfo else []
        assert set(handles) <= inheritable, "a handle in the list must be inheritable"
        return subprocess.Popen(command, pass_fds=handles, **options)

    def handle_signal(number, handler):
        if number not in numbers:
            raise ValueError("signal number out of range")
        return signal.signal(number, handler)

    def inherit(handle, value):
        (inheritable.add if value else inheritable.discard)(handle)

    numbers = {signal.SIGQUIT, *(getattr(signal, n) for n in _WINDOWS_SIGNALS - {"SIGBREAK"})}
    other_signals = {name for name in dir(signal) if name.startswith("SIG")} - _WINDOWS_SIGNALS
    keep = {"SIG_DFL", "SIG_IGN"}
    connection = multiprocessing.connection
    return {
        "os": Proxy(
            os, [*LINUX_ONLY, *UNIX_ONLY], O_BINARY=_BINARY, O_NOINHERIT=_NO_INHERIT,
            fsync=check_fsync, kill=kill, utime=utime, set_handle_inheritable=inherit,
        ),
        "signal": Proxy(
            signal, other_signals - keep, SIGBREAK=signal.SIGQUIT, signal=handle_signal
        ),
        "mmap": Proxy(mmap, [n for n in dir(mmap) if n.startswith("MADV")], mmap=NoAdvice),
        "socket": Proxy(socket, ["send_fds", "recv_fds", "AF_UNIX"]),
        "subprocess": Proxy(subprocess, STARTUPINFO=StartupInfo, Popen=start),
        "multiprocessing.connection": Proxy(
            connection, Connection=no_pipe, PipeConnection=connection.Connection
        ),
        "msvcrt": Proxy(types.ModuleType("msvcrt"), LK_LOCK=1, locking=locking),
        "ctypes": Proxy(ctypes, ["CDLL"], WinDLL=Kernel32, get_last_error=lambda: 87),
    }  # fmt: skip


def no_pipe(handle):
    raise AssertionError("on Windows a Connection is a socket; a pipe is a PipeConnection")


class NoAdvice(mmap.mmap):
    """A map on a system without madvise."""

    @property
    def madvise(self):
        raise AttributeError("'mmap.mmap' object has no attribute 'madvise'")


class StartupInfo:
    def __init__(self, *, lpAttributeList):  # noqa: N803
        self.lpAttributeList = lpAttributeList


def locking(descriptor, mode, num_bytes):
    """Wait for the lock a while, then give up with the error that Windows has for it."""
    assert (mode, num_bytes) == (1, 1)
    for _ in range(10):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
    raise OSError(errno.EDEADLK, "Resource deadlock avoided")


class Kernel32:
    """Functions of kernel32.dll that tokenmill calls; a handle is the number of a process."""

    def __init__(self, name, *, use_last_error):
        assert name == "kernel32"
        assert use_last_error

        def open_process(access, inherit, pid):
            return pid if os.path.exists(f"/proc/{pid}") else None

        def exit_code(handle, code):
            code._obj.value = 259 if self._fields(handle)[0] != "Z" else 1

        def times(handle, creation, *others):
            creation._obj.value = int(self._fields(handle)[19])

        self.OpenProcess, self.GetExitCodeProcess = open_process, exit_code
        self.GetProcessTimes, self.CloseHandle = times, lambda handle: None

    def _fields(self, handle):
        return read_proc(f"{handle.value}/stat").rpartition(")")[2].split()


def read_proc(name):
    _ours.looks = True
    try:
        with open(f"/proc/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    finally:
        _ours.looks = False


def no_fork():
    import pytest

    pytest.skip("Windows does not fork")


def forbid_like_windows(event, args):
    """Raise what Windows raises: for folders, for text, for files that are in use."""
    if event not in ("open", "os.rename", "os.remove", "os.rmdir"):
        return
    caller = sys._getframe(1).f_globals.get("__name__", "")
    if event == "open" and args[1] is None and caller.startswith("tokenmill"):
        if os.path.isdir(args[0]):
            raise PermissionError(errno.EACCES, "Permission denied", os.fspath(args[0]))
        assert args[2] & _BINARY, f"{args[0]} is opened as text"
    elif event != "open" and isinstance(args[0], str | os.PathLike):
        paths = args[:2] if event == "os.rename" else args[:1]
        # tempfile has another way on Windows: files that go when they are closed.
        if calls_come_from_tokenmill() and caller != "tempfile":
            names = names_in_use()
            for path in map(os.path.abspath, paths):
                if path in names or any(name.startswith(f"{path}/") for name in names):
                    raise PermissionError(errno.EACCES, "it is in use (WinError 32)", path)
            if event == "os.rename" and os.path.isdir(args[1]):
                raise PermissionError(errno.EACCES, "Access is denied (WinError 5)", args[1])


def names_in_use():
    """The paths of all files that this process, or a child of it, has open or mapped."""
    children = read_proc(f"self/task/{os.getpid()}/children").split()
    names = set()
    for pid in ["self", *children]:
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                try:
                    names.add(os.readlink(f"/proc/{pid}/fd/{number}"))
                except OSError:
                    continue
            maps = read_proc(f"{pid}/maps").splitlines()
            names |= {line.split(maxsplit=5)[-1] for line in maps}
        except OSError:
            continue
    return names
