"""Room on the disk: checked before the work starts, explained when it still runs out."""

import errno
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tokenmill.base.signals import RESUME_HINT
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.text.inputs.open_input import Source

# Fewer tokens than nearly any text makes: this must not refuse what would have fitted.
BYTES_PER_TOKEN = {"bytes": 1.0, "chars": 3.0}
BYTES_PER_TOKEN_OF_OTHERS = 6.0
COMPRESSION = 2.5
BEST_COMPRESSION = 6.0
BEST_OF_SHARDS = 0.3  # of their plain size, where they are compressed
FAST_TOKENIZERS = ("gpt2", "bytes")
SMALL_JOB = 16 << 20  # bytes that take about half a second
SMALL_JOB_OF_OTHERS = 1 << 20  # the same for other tokenizers
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FAILING = (errno.EIO, errno.EROFS, errno.ESTALE)  # a disk that fails is often made read-only


def expected_bytes(plan: Plan) -> int:
    """Estimate the size of the shards, rather too small."""
    text = text_bytes(plan.sources, COMPRESSION)
    per_token = BYTES_PER_TOKEN.get(plan.settings.tokenizer, BYTES_PER_TOKEN_OF_OTHERS)
    return int(text / per_token) * (4 if plan.settings.dtype == "uint32" else 2)


def has_room_for_text(plan: Plan) -> bool:
    """Return True if the cleaned text fits on the disk too, by a wide margin."""
    needed = text_bytes(plan.sources, BEST_COMPRESSION) + 4 * expected_bytes(plan)
    return shutil.disk_usage(plan.workspace.root).free > 2 * needed


def is_small_job(plan: Plan) -> bool:
    """Return True if one process is done before a second one would have started."""
    return text_bytes(plan.sources, BEST_COMPRESSION) < (
        SMALL_JOB if plan.settings.tokenizer in FAST_TOKENIZERS else SMALL_JOB_OF_OTHERS
    )


def text_bytes(sources: Sequence[Source], compression: float) -> int:
    """Estimate the size of the text, where compressed files grow by the factor `compression`."""
    packed = [source for source in sources if source.compression or source.kind == "parquet"]
    plain = sum(source.size for source in sources)
    return plain + int((compression - 1) * sum(source.size for source in packed))


def check_space(plan: Plan, *, shards: bool = True) -> None:
    """Refuse to start what cannot end: tokens are on disk twice while shards are assembled."""
    ours = plan.workspace.out_dir if plan.previous is None else plan.workspace.root
    there = sum(path.stat().st_size for path in ours.rglob("*") if path.is_file())
    stay_here = shards and plan.destination is None  # uploaded shards are removed here
    copies = 1.0 + stay_here * (1.0 if plan.settings.compress is None else BEST_OF_SHARDS)
    needed = int(copies * expected_bytes(plan)) - there
    free = shutil.disk_usage(plan.workspace.root).free
    if needed > free:
        raise PrepareError(
            f"{plan.workspace.out_dir} has {free:,} bytes free, but about {needed:,} are needed: "
            f"the dataset of some {expected_bytes(plan):,} bytes"
            + (", twice while it is made" if copies == 2 else ""),
            hint="free some space, or write to another disk; nothing was tokenized yet",
        )


@contextmanager
def explain_bad_disk(folder: Path) -> Iterator[None]:
    """Explain errors of a disk that is full or failing."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            here = folder.absolute()
            usage = shutil.disk_usage(next(at for at in (here, *here.parents) if at.exists()))
            raise PrepareError(
                f"cannot write to {folder}: {error.strerror} "
                f"({usage.free:,} of {usage.total:,} bytes are free)",
                hint=f"free some space; then {RESUME_HINT}",
            ) from error
        if error.errno in FAILING:
            raise PrepareError(
                f"the disk that holds {folder} is failing: {error.strerror}"
                + (f" at {error.filename}" if error.filename else ""),
                hint=f"once it is repaired, {RESUME_HINT}",
            ) from error
        raise
