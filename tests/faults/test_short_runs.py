"""A few of everything that `make faults` does by the thousand."""

import os
import subprocess
import sys

import pytest
from faults.forks import ROOT
from system_faults import needs_strace


def run(*arguments, before=()):
    """`before` are folders that Python looks into before ours."""
    paths = os.pathsep.join([*before, str(ROOT / "src"), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, "-P", "-m", "faults", *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "part",
    [
        pytest.param("kills", marks=needs_strace),
        pytest.param("calls", marks=needs_strace),
        pytest.param("losses", marks=needs_strace),
        "flips",
        "fuzz",
        "hostile",
        "attacks",
        "stores",
        "cluster",
    ],
)
def test_a_short_run_finds_nothing(part):
    done = run("--short", "--only", part)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{part}, seed 1, ")
    assert "Traceback" not in done.stderr


def test_what_is_found_is_counted_and_ends_the_run_with_an_error(tmp_path):
    """A reader that does not check anything, given to the same machinery."""
    script = tmp_path / "run.py"
    script.write_text(
        "import json, os, pathlib, sys, time\n"
        "from faults import fuzz\n"
        "from faults.readers import READERS, Reader\n"
        "from faults.tally import Tally\n"
        "def read(folder, sound):\n"
        "    data = (folder / 'a').read_bytes()\n"
        "    if b'(' in data: os.abort()\n"
        "    if b'[' in data: time.sleep(9)\n"
        "    int(data)\n"
        "make = lambda folder: (folder / 'a').write_bytes(b'1234')\n"
        "change = lambda data, chance: chance.choice([b'12', b'x', b'(', b'['])\n"
        "READERS['odd'] = Reader('odd', make, read, mutate=change)\n"
        "fuzz.HANGS_AFTER = 0.5\n"
        "tally = Tally(1)\n"
        "fuzz.fuzz(tally, pathlib.Path(sys.argv[1]), ['odd'], 12)\n"
        "print(json.dumps(tally.to_json()))\n"
    )
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])

    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )

    for words in ('"files": 12', "ended with -6", "no answer for", "ValueError"):
        assert words in done.stdout
