"""Preparations in processes of their own, so that they can be killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

from preparation import oracle

TESTS = Path(__file__).parents[1]
PROGRAM = """
import json, sys
from tokenmill.base.progress import Progress
from tokenmill.errors import TokenmillError
from flat import prepare

class Held(Progress):
    stage, _, count = (sys.argv[2:] or [""])[0].partition(" ")

    def hold(self):
        print("held", flush=True)
        sys.stdin.read()

    def begin(self, *arguments, **options):
        if not self.count:
            self.hold()
        return super().begin(*arguments, **options)

    def follow(self, what, results, **options):
        for number, result in enumerate(super().follow(what, results, **options), 1):
            yield result
            if f"{what} {number}" == f"{self.stage} {self.count}":
                self.hold()

try:
    prepare(**json.loads(sys.argv[1]), progress=Held() if sys.argv[2:] else Progress())
except TokenmillError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def command(**arguments):
    text = json.dumps({name: _plain(value) for name, value in arguments.items()})
    return [sys.executable, "-P", "-c", PROGRAM, text]


def _plain(value):
    if isinstance(value, Path):
        return str(value)
    return [str(item) for item in value] if isinstance(value, list) else value


def start(arguments, before=(), after=(), **options):
    return subprocess.Popen(
        [*before, *command(**arguments), *after],
        env={
            **os.environ,
            "PYTHONPATH": f"{oracle.SOURCE}:{TESTS}:{os.environ.get('PYTHONPATH', '')}",
        },
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def start_and_hold(arguments, at="hold", **options):
    """A preparation that waits, with its lock, until its standard input is closed.

    It waits when as many tasks of a stage are done as `at` says ("lines 3"), or at once. Its
    workers do not wait. So a test meets it in the middle, however busy the machine is.
    """
    process = start(arguments, after=[at], stdin=subprocess.PIPE, **options)
    assert process.stdout.readline() == "held\n"
    return process


def run(arguments, before=(), **options):
    """(exit code, what was written to standard error)."""
    process = start(arguments, before, **options)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


def wait_until(process, folder, stage, count):
    """Return when so many tasks of a stage are done (True) or the process has ended (False)."""
    while process.poll() is None:
        if len(done_tasks(folder, stage)) >= count:
            return True
    return False


def done_tasks(folder, stage):
    """The names of the tasks of a stage that left a receipt, by the whole lines of all logs."""
    found = []
    for log in Path(folder).glob(f"receipts/{stage}/*.log"):
        lines = log.read_bytes().split(b"\n")[:-1]
        found += [line.split()[1].decode() for line in lines if line]
    return found


def assert_nothing_stray(folder):
    folder = Path(folder)
    names = {path.name for path in folder.iterdir()}
    splits = {name for name in names if name.startswith("val_")}
    assert names - splits <= {
        "dataset_metadata.json", "tokenizer_state.json", "README.md", "train", "val"
    }  # fmt: skip
    assert not [path for path in folder.rglob(".*")]
    assert [path.name for path in folder.parent.iterdir() if "tokenmill-" in path.name] == []


def children_of(pid):
    """The processes that a process has started and that are there still, or were a moment ago."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return set()
    return {int(child) for child in found.split()}


def has_open(pid, path):
    """Whether a process has this file open now."""
    try:
        return any(file.samefile(path) for file in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
