"""Memory of a run: the process does not grow with the data; pages of files are counted apart."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

MEBIBYTE = 1 << 20
PROGRAM = """
import sys
import tokenmill

def memory():
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return [int(fields[name].split()[0]) << 10 for name in ("RssAnon", "RssFile")]

data = tokenmill.open(sys.argv[1], format="nanogpt", dtype="uint16")
loader = tokenmill.BatchLoader(data, batch_size=64, block_size=1024)
for epochs in (0, 1, 2):
    for _ in range(1 + epochs * len(data) // (64 * 1024)):
        next(loader)
    print(*memory())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells them apart")
def test_reading_a_file_again_and_again_does_not_grow_the_process(tmp_path):
    np.zeros(64 * MEBIBYTE, np.uint16).tofile(tmp_path / "tokens.bin")

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "tokens.bin"], capture_output=True, check=True
    )

    rows = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    (_, file), (anon, file_later), (anon_later, _) = rows  # after a batch, an epoch, two more
    # 256 MiB of tokens were read meanwhile; batches that are kept ready come and go.
    assert anon_later - anon < 16 * MEBIBYTE
    assert file_later - file > 100 * MEBIBYTE  # which `htop` counts as memory of the process
