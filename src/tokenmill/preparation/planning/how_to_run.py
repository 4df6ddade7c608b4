"""How a preparation runs: memory, machines, folders. Nothing here changes a byte of the result."""

import os
from dataclasses import dataclass, field

from tokenmill.base.progress import Progress

UNIT_BYTES = 32 << 20


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a preparation runs, for `prepare(..., run=Run(max_ram="4G"))`; the result is the same.

    `retokenize`, `train_tokenizer` and the jobs take it too.
    """

    max_ram: int | str | None = None
    """Memory that all workers together stay within: bytes, or text such as "4G"."""
    engine: str = "local"
    """Where tasks run: `local` for processes of this machine, `ray` for a Ray cluster."""
    ray_address: str | None = None
    """The cluster: `auto`, or HOST:PORT. Without it, Ray is started on this machine alone."""
    work_dir: str | os.PathLike[str] | None = None
    """Folder for the work where the dataset goes to `s3://`, `gs://` or `az://`."""
    break_lock: bool = False
    """Take the output over from a machine that is gone."""
    unit_bytes: int = UNIT_BYTES
    """Bytes of input that one task reads."""
    progress: Progress = field(default_factory=Progress, repr=False)
    """Shows stages and notes while they happen; by default nothing is shown."""


USUAL_RUN = Run()
