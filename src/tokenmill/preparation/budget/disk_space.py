"""Room on the disk: asked for before the work begins, explained when it runs out all the same."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenmill.base.signals import RESUME_HINT
from tokenmill.errors import PrepareError
from tokenmill.preparation.plan import Plan

# Fewer tokens than nearly any text makes: this must not refuse what would have fitted.
BYTES_PER_TOKEN = {"bytes": 1.0, "chars": 3.0}
BYTES_PER_TOKEN_OF_OTHERS = 6.0
COMPRESSION = 2.5
BEST_COMPRESSION = 6.0
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FAILING = (errno.EIO, errno.EROFS, errno.ESTALE)  # a disk that fails is often made read-only


def expected_bytes(plan: Plan) -> int:
    """About how large the shards will be, rather too small."""
    text = _text_bytes(plan, COMPRESSION)
    per_token = BYTES_PER_TOKEN.get(plan.settings.tokenizer, BYTES_PER_TOKEN_OF_OTHERS)
    return int(text / per_token) * (4 if plan.settings.dtype == "uint32" else 2)


def has_room_for_text(plan: Plan) -> bool:
    """Whether the cleaned text fits on the disk too, by a wide margin, until it is encoded."""
    needed = _text_bytes(plan, BEST_COMPRESSION) + 4 * expected_bytes(plan)
    return shutil.disk_usage(plan.workspace.root).free > 2 * needed


def _text_bytes(plan: Plan, compression: float) -> int:
    packed = [bool(source.compression) or source.kind == "parquet" for source in plan.sources]
    sizes = zip(plan.sources, packed, strict=True)
    return int(sum(source.size * (compression if is_packed else 1) for source, is_packed in sizes))


def check_space(plan: Plan) -> None:
    """Refuse to begin what cannot end: tokens are on disk twice while shards are assembled."""
    there = sum(path.stat().st_size for path in _files(plan))
    copies = 2 if plan.destination is None else 1  # uploaded shards are removed here
    needed = copies * expected_bytes(plan) - there
    free = shutil.disk_usage(plan.workspace.root).free
    if needed > free:
        raise PrepareError(
            f"{plan.workspace.out_dir} has {free:,} bytes free, but about {needed:,} are needed: "
            f"the dataset of some {expected_bytes(plan):,} bytes"
            + (", twice while it is made" if copies == 2 else ""),
            hint="free some space, or write to another disk; nothing was tokenized yet",
        )


def _files(plan: Plan) -> Iterator[Path]:
    """What an earlier run of this preparation left."""
    if plan.previous is None:
        yield from (path for path in plan.workspace.out_dir.rglob("*") if path.is_file())
    else:
        yield from (path for path in plan.workspace.root.rglob("*") if path.is_file())


@contextmanager
def explain_bad_disk(folder: Path) -> Iterator[None]:
    """Turn a disk that is full or failing into what there is and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise PrepareError(
                f"cannot write to {folder}: {error.strerror} ({_free(folder)})",
                hint=f"free some space; then {RESUME_HINT}",
            ) from error
        if error.errno in FAILING:
            raise PrepareError(
                f"the disk that holds {folder} is failing: {error.strerror}"
                + (f" at {error.filename}" if error.filename else ""),
                hint=f"once it is repaired, {RESUME_HINT}",
            ) from error
        raise


def _free(folder: Path) -> str:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    return f"{usage.free:,} of {usage.total:,} bytes are free"
