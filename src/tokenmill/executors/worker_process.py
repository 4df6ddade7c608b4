"""One worker of `local.py`, seen from its parent: started, talked to, stopped."""

import functools
import os
import re
import signal
import sys
from pathlib import Path

from tokenmill.base.child_process import start_child
from tokenmill.base.system import processor

# -P: files of the current folder must not shadow modules
PROGRAM = (sys.executable, "-P", "-m", "tokenmill.executors.worker")

# Tasks allocate and free the same few megabytes over and over; handing each back to the kernel
# and asking for it again, zeroed, took a fifth of the time. glibc reads these when it starts.
# NumPy's threads for linear algebra wait for work by spinning; no task has any for them.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "OPENBLAS_NUM_THREADS": "1",
}

# Where AMD's Zen 4 sorts with AVX-512, it takes five times as long as with AVX2: NumPy stores
# compressed vectors, which are slow there. These are the names of AVX-512 in NumPy's releases.
SORT_WITH_AVX2 = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_SKX"}
ZEN_4 = re.compile(rb"AuthenticAMD\ncpu family\t: 25\n")


@functools.cache
def _is_zen_4() -> bool:
    return ZEN_4.search(processor()) is not None


class WorkerProcess:
    """A fresh interpreter that runs `worker.py`; tasks go over `connection`."""

    def __init__(self, *modules: str) -> None:
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]
        environment = {
            **ENVIRONMENT,
            **(SORT_WITH_AVX2 if _is_zen_4() else {}),
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        }
        self.process, self.connection = start_child(PROGRAM, modules, environment)

    def stop(self) -> str:
        """End the process, if it has not ended by itself; return how it ended."""
        self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
