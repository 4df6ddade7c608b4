"""Whose share of the data: the first source that speaks is believed, and named."""

import pytest
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

from tokenmill.torch.world import find_ranks

SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "expected", "source"),
    [
        ({}, (0, 1), "no launcher found"),
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


def test_one_process_says_so():
    assert str(find_ranks(environ={})) == "1 process (no launcher found)"


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


@pytest.mark.parametrize("wrong", [{"RANK": "first"}, {"WORLD_SIZE": "2.0"}, {"RANK": "-1"}])
def test_what_a_launcher_says_must_be_whole_numbers(wrong):
    with pytest.raises(ValueError, match=r"RANK='.*', WORLD_SIZE='.*': not whole numbers"):
        find_ranks(environ={**TORCHRUN, **wrong})


@pytest.fixture
def six_ranks():
    """A process group of six of which this is rank 5, without the other five."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", rank=5, world_size=6, store=FakeStore())
    yield
    distributed.destroy_process_group()


def test_an_initialised_process_group_wins_over_the_environment(six_ranks):
    found = find_ranks(environ=TORCHRUN)

    assert str(found) == "rank 5 of 6, from torch.distributed"


def test_tensor_parallel_ranks_share_a_batch(six_ranks):
    """Rank 5 of a (dp 2, tp 3) mesh is (1, 2): the second of two shares of the data."""
    mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))

    found = find_ranks(mesh=mesh)

    assert (found.rank, found.world_size) == (1, 2)


def test_replicated_and_sharded_dimensions_divide_the_data(six_ranks):
    mesh = init_device_mesh("cpu", (3, 2), mesh_dim_names=("dp_replicate", "dp_shard"))

    found = find_ranks(mesh=mesh)

    assert (found.rank, found.world_size) == (5, 6)


def test_a_mesh_without_names_is_refused(six_ranks):
    with pytest.raises(ValueError, match="no mesh_dim_names"):
        find_ranks(mesh=init_device_mesh("cpu", (6,)))
