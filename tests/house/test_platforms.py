"""Calls that Linux, macOS or Windows lacks are in four files of base/, and nowhere else.

Names that typeshed knows to be of one system are found by `make types`, which runs mypy for all
three. What mypy cannot see is found here: whether code asks which system it is on, opens as text,
or renames a file without a thought for those who have it open.
"""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from disguises import disguise
from disguises.differences import CORE, DIFFERENCES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tokenmill"
FOR_SYSTEMS = {"base/system.py", "base/descriptors.py", "base/child_process.py", "base/signals.py"}
# It serves processes that were forked: on a system without fork nobody imports it.
FOR_FORKS = {"stores/forked_requests.py"}
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "msvcrt", "ctypes"}
NAMES = {
    "os": {*disguise.LINUX_ONLY, *disguise.UNIX_ONLY, "name", "open", "rename", "replace", "fsync"},
    "sys": {"platform", "getwindowsversion"},
    "signal": {"SIGUSR1", "SIGUSR2", "SIGKILL", "SIGHUP", "SIGALRM", "SIGCHLD", "SIGBREAK"},
    "socket": {"send_fds", "recv_fds", "AF_UNIX"},
    "mmap": {"MADV_RANDOM", "MADV_DONTNEED", "MADV_WILLNEED", "PROT_READ", "MAP_SHARED"},
    "multiprocessing": {"get_context", "set_start_method"},
}


def found_in(tree):
    """What of a module is of one system only, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            names = {node.module} & MODULES
            names |= {a.name for a in node.names} & NAMES.get(node.module, set())
        elif isinstance(node, ast.Attribute):
            names = {node.attr} & {"write_text", "madvise"}
            names |= {node.attr} & NAMES.get(ast.unparse(node.value), set())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = {node.value} if node.value.startswith(("/proc", "/sys/")) else set()
        else:
            continue
        yield from ((node.lineno, name) for name in names)


def test_only_four_files_know_that_systems_differ():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in FOR_SYSTEMS | FOR_FORKS:
            tree = ast.parse(path.read_text("utf-8"))
            found += [f"{name}:{line} {what}" for line, what in found_in(tree)]

    assert not found


@pytest.mark.parametrize(
    "code",
    [
        "import fcntl",
        "from os import pread",
        "os.sched_getaffinity(0)",
        "sys.platform == 'linux'",
        "open('/proc/self/stat')",
        "path.write_text('a')",
    ],
)
def test_what_is_looked_for_is_found(code):
    assert list(found_in(ast.parse(code)))


@pytest.mark.parametrize("system", DIFFERENCES)
def test_the_core_of_the_tests_passes_in_the_disguise_of_a_system(system):
    """Prepare, open, load, convert, verify, keep checkpoints, lock and work in processes."""
    done = run_disguised(system, *CORE, "-rA")

    outcomes = Counter(line.partition(" ")[0] for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert outcomes["PASSED"] > 150, outcomes


def run_disguised(system, *words):
    environment = {
        **{name: value for name, value in os.environ.items() if "PYTEST" not in name},
        "DISGUISE": system,
        "PYTHONPATH": str(ROOT / "tests" / "disguises"),
        "PYTHONWARNDEFAULTENCODING": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--disable-warnings"]
    return subprocess.run(
        [*command, *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
