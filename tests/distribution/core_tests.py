"""Run the core of the suite against the tokenmill that is installed, not the one in src/.

    python tests/distribution/core_tests.py            # the Python that is to be tested
    python tests/distribution/core_tests.py -k resume  # arguments are those of pytest

Needs pytest, pytest-timeout, hypothesis and tiktoken (an oracle), and no other package than those
that tokenmill itself installs: what an extra brings is tested by the whole suite. For wheels, for
the oldest versions of the dependencies, and for systems and Pythons that `make test` does not see.
"""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
CORE = (
    *("base/test_atomic.py", "base/test_hashing.py", "base/test_lock.py", "base/test_words.py"),
    *("kernel/test_gather_spans.py", "kernel/test_kernel.py", "order", "reading", "batches"),
    *("shards/test_layout.py", "shards/test_manifest.py", "shards/test_writer.py"),
    *("shards/test_verify.py", "formats/test_conformance.py", "formats/test_splits.py"),
    *("promises/test_order_is_frozen.py", "promises/test_same_bytes.py", "test_dataset.py"),
    *("preparation/test_against_oracle.py", "preparation/test_killed.py"),
    *("text/test_clean.py", "text/test_dedup.py", "text/test_lines.py"),
)


def main(arguments: list[str]) -> int:
    """Return the exit code of pytest."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-o",
        f"pythonpath={TESTS}",
        "-p",
        "no:cacheprovider",
    ]
    files = [str(TESTS / name) for name in CORE]
    return subprocess.run([*command, *arguments, *files], cwd=TESTS.parent).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
