"""Who takes which sample: a step is a run of sample numbers, cut evenly over the ranks.

Step k begins at sample origin + k * world_size * batch_size. The origin is 0, unless a run resumes
with another batch size from a sample that is no multiple of the new step: then the remainder shifts
every step, and the samples before the origin were taken under the old size.
"""

from dataclasses import dataclass

import numpy as np

from tokenmill.base.suggest import check_at_least_one

LARGEST = 1 << 48
"""All numbers of samples are below this: sums of many, and of their tokens, fit int64."""


@dataclass(frozen=True)
class StepShare:
    """The share of one rank in the samples of every step."""

    batch_size: int
    """Rows of a batch on one rank."""
    rank: int = 0
    world_size: int = 1
    origin: int = 0

    def __post_init__(self) -> None:
        check_at_least_one(batch_size=self.batch_size, world_size=self.world_size)
        rank = self.rank
        size = self.world_size
        if not 0 <= rank < size:
            raise ValueError(f"rank is {rank}; with world_size {size} it must be 0 to {size - 1}")

    @property
    def samples_per_step(self) -> int:
        return self.batch_size * self.world_size

    def first_sample(self, step: int) -> int:
        """The first sample number of a step, over all ranks."""
        return self.origin + step * self.samples_per_step

    def samples(self, steps: range) -> np.ndarray:
        """This rank's sample numbers in these steps: (num_steps, batch_size).

        >>> StepShare(batch_size=2, rank=1, world_size=3).samples(range(2)).tolist()
        [[2, 3], [8, 9]]
        """
        numbers = np.arange(steps.start, steps.stop, steps.step, dtype=np.int64)[:, None]
        rows = np.arange(self.batch_size, dtype=np.int64)
        return self.origin + numbers * self.samples_per_step + (self.rank * self.batch_size + rows)

    def taker_of(self, sample: int) -> tuple[int, int, int]:
        """The (step, rank, row) that takes a sample number; the inverse of `samples`.

        >>> StepShare(batch_size=2, world_size=3).taker_of(8)
        (1, 1, 0)
        """
        step, inside = divmod(sample - self.origin, self.samples_per_step)
        return step, *divmod(inside, self.batch_size)
