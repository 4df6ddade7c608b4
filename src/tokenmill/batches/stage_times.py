"""How long the stages of a loader take, and how many batches are ready when one is asked for."""

from typing import Any

from tokenmill.base.histogram import Histogram


class StageTimes:
    """Numbers of one loader. Reading includes fetching; copying is to a device, or none."""

    def __init__(self) -> None:
        self.wait = Histogram()
        self.order = Histogram()
        self.read = Histogram()
        self.fetch = Histogram()
        self.copy = Histogram()
        self.seconds_waited = 0.0
        """Time that the owner waited for batches, those that it made itself included."""
        self.num_pauses = 0  # times that the owner was away long enough for the thread to work
        self.num_ready = 0  # batches that were ready after these, in all

    def to_json(self, num_steps: int) -> dict[str, Any]:
        """Return the numbers of each stage, and the mean depth of the queue, for `stats()`."""
        stages = {
            name: getattr(self, name).summary() for name in ("order", "read", "fetch", "copy")
        }
        waits = {**self.wait.summary(num_steps), "seconds": self.seconds_waited}
        depth = self.num_ready / max(1, self.num_pauses)
        return {"stages": {"wait": waits, **stages}, "queue_depth": depth}
