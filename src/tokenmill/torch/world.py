"""Which share of the data is mine: the rank and the world size, and where they were found.

The first of these that is there is used, and `Ranks.source` names it: arguments or a DeviceMesh, an
initialised process group of torch, variables of a launcher; otherwise there is one process. Slurm's
are used only with SLURM_STEP_ID, which `srun` sets: in a batch script one process runs for all
tasks, and would read 1/n of the data.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("tokenmill")

# (name of the launcher, variable of the rank, variable of the world size, variable required)
_LAUNCHERS = (
    ("torchrun (RANK, WORLD_SIZE)", "RANK", "WORLD_SIZE", None),
    ("Slurm step (SLURM_PROCID, SLURM_NTASKS)", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", None),
    ("PMI (PMI_RANK, PMI_SIZE)", "PMI_RANK", "PMI_SIZE", None),
)
NO_LAUNCHER = "no launcher found"
# Dimensions of a mesh along which every process reads the same batch.
_SAME_BATCH_DIMS = {"tp", "cp", "sp", "pp"}


@dataclass(frozen=True)
class Ranks:
    """A share of the data: this rank of `world_size`, and where that was found."""

    rank: int
    world_size: int
    source: str

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"rank {self.rank} of world size {self.world_size} (from {self.source}); "
                "expected 0 <= rank < world_size"
            )

    def __str__(self) -> str:
        if self.source == NO_LAUNCHER:
            return f"1 process ({NO_LAUNCHER})"
        return f"rank {self.rank} of {self.world_size}, from {self.source}"


def find_ranks(
    rank: int | None = None,
    world_size: int | None = None,
    *,
    mesh: Any = None,
    environ: Mapping[str, str] | None = None,
) -> Ranks:
    """Resolve this process's share of the data; log and return it.

    `mesh` is a torch DeviceMesh; its tensor-, context- and pipeline-parallel dimensions (named
    tp, cp, sp, pp) share one batch, all others divide the data.
    """
    found = _given(rank, world_size) or _of_mesh(mesh) or _of_process_group()
    found = found or _of_environment(os.environ if environ is None else environ)
    found = found or Ranks(0, 1, NO_LAUNCHER)
    log.info("data share: %s", found)
    return found


def _given(rank: int | None, world_size: int | None) -> Ranks | None:
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        raise ValueError(f"rank={rank} and world_size={world_size}: give both or neither")
    return Ranks(rank, world_size, "arguments")


def _of_mesh(mesh: Any) -> Ranks | None:
    if mesh is None:
        return None
    names = mesh.mesh_dim_names
    if names is None:
        raise ValueError(
            "the DeviceMesh has no mesh_dim_names, so its data dimensions are unknown\n\n"
            "hint: name them, e.g. init_device_mesh('cuda', (4, 2), mesh_dim_names=('dp', 'tp'))"
        )
    rank = 0
    world_size = 1
    for name in names:  # row-major over the data dimensions
        if name not in _SAME_BATCH_DIMS:
            size = mesh.size(names.index(name))
            rank = rank * size + mesh.get_local_rank(name)
            world_size *= size
    return Ranks(rank, world_size, f"DeviceMesh {names}")


def _of_process_group() -> Ranks | None:
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    return Ranks(distributed.get_rank(), distributed.get_world_size(), "torch.distributed")


def _of_environment(environ: Mapping[str, str]) -> Ranks | None:
    for source, rank_name, size_name, required in _LAUNCHERS:
        rank = environ.get(rank_name)
        size = environ.get(size_name)
        if rank is None or size is None or (required and required not in environ):
            continue
        if not (rank.isdecimal() and size.isdecimal()):
            raise ValueError(f"{rank_name}={rank!r}, {size_name}={size!r}: not whole numbers")
        return Ranks(int(rank), int(size), source)
    return None
