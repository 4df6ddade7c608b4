"""Whose share of the data: the first source that speaks is believed, and named."""

import pytest

from tokenmill.torch.ranks import find_ranks

SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "expected", "source"),
    [
        ({}, (0, 1), "one process"),
        (TORCHRUN, (1, 2), "torchrun"),
        ({**SLURM, "SLURM_STEP_ID": "0"}, (3, 4), "Slurm step"),
        ({**TORCHRUN, **SLURM, "SLURM_STEP_ID": "0"}, (1, 2), "torchrun"),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "8"}, (2, 8), "Open MPI"),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2), "PMI"),
    ],
)
def test_launchers_are_asked_in_order(environ, expected, source):
    found = find_ranks(environ=environ)

    assert (found.rank, found.world_size) == expected
    assert source in found.source


def test_a_slurm_batch_script_is_one_process():
    """`sbatch -n 4` without srun sets these two and runs once: half-trusting it loses 3/4."""
    found = find_ranks(environ=SLURM)

    assert (found.rank, found.world_size) == (0, 1)


def test_arguments_win_over_the_environment():
    found = find_ranks(5, 8, environ=TORCHRUN)

    assert (found.rank, found.world_size, found.source) == (5, 8, "arguments")


def test_the_choice_is_logged(caplog):
    with caplog.at_level("INFO", logger="tokenmill"):
        find_ranks(environ=TORCHRUN)

    assert "rank 1 of 2, from torchrun" in caplog.text


@pytest.mark.parametrize(
    ("rank", "world_size", "words"),
    [(2, 2, "0 <= rank < world_size"), (0, None, "both or neither"), (-1, 2, "rank -1")],
)
def test_a_share_that_cannot_be_is_refused(rank, world_size, words):
    with pytest.raises(ValueError, match=words):
        find_ranks(rank, world_size)


class Mesh:
    """What find_ranks asks of a torch DeviceMesh, for rank (dp 1, tp 2) of a 2 x 3 mesh."""

    mesh_dim_names = ("dp", "tp")
    sizes = (2, 3)

    def size(self, dim):
        return self.sizes[dim]

    def get_local_rank(self, name):
        return {"dp": 1, "tp": 2}[name]


def test_tensor_parallel_ranks_share_a_batch():
    found = find_ranks(mesh=Mesh())

    assert (found.rank, found.world_size) == (1, 2)
