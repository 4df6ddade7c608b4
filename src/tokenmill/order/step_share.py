"""Who takes which sample: a step is a run of sample numbers, cut evenly over the ranks.

A step takes `world_size * batch_size` sample numbers; rank r takes the r-th run of `batch_size` of
them; where a rank has several workers, they take the steps in turns. All ranks see the same number
of steps because a step is all of them together.

Step k begins at sample origin + k * world_size * batch_size. The origin is 0, unless a run goes on
with another batch size from a sample that is no multiple of the new step: then the remainder shifts
every step, and the samples before the origin were taken under the old size.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ranks:
    """How the samples of a step are shared out."""

    batch_size: int
    rank: int = 0
    world_size: int = 1
    origin: int = 0

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}; it must be at least 1")
        if self.world_size < 1:
            raise ValueError(f"world_size is {self.world_size}; it must be at least 1")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"rank is {self.rank}; with world_size {self.world_size} it must be "
                f"0 to {self.world_size - 1}"
            )

    @property
    def samples_per_step(self) -> int:
        """How many sample numbers one step takes over all ranks."""
        return self.batch_size * self.world_size

    def first_sample(self, step: int) -> int:
        """The first sample number of a step, over all ranks."""
        return self.origin + step * self.samples_per_step

    def samples(self, step: int, num_steps: int = 1) -> np.ndarray:
        """This rank's sample numbers in `num_steps` steps from `step`: (num_steps, batch_size).

        >>> Ranks(batch_size=2, rank=1, world_size=3).samples(0, 2).tolist()
        [[2, 3], [8, 9]]
        """
        steps = np.arange(step, step + num_steps, dtype=np.int64)[:, None]
        rows = np.arange(self.batch_size, dtype=np.int64)
        return self.origin + steps * self.samples_per_step + (self.rank * self.batch_size + rows)

    def place_of(self, sample: int) -> tuple[int, int, int]:
        """The (step, rank, row) that takes a sample number; the inverse of `samples`.

        >>> Ranks(batch_size=2, world_size=3).place_of(8)
        (1, 1, 0)
        """
        step, inside = divmod(sample - self.origin, self.samples_per_step)
        return step, *divmod(inside, self.batch_size)


def steps_of_worker(first_step: int, worker: int, num_workers: int, num_steps: int) -> range:
    """The steps one worker of a rank prepares: worker 0 takes the first, worker 1 the next, ...

    >>> list(steps_of_worker(10, 1, 3, 9))
    [11, 14, 17]
    """
    return range(first_step + worker, first_step + num_steps, num_workers)
