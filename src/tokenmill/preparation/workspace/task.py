"""What a task is: a function of the output folder and a few small values that leaves a receipt.

Whoever runs tasks may ask for the receipt of one without running it: that is how many machines
share a stage without talking to each other (`executors/numbered.py`).
"""

import functools
from collections.abc import Callable
from typing import Any

from tokenmill.preparation.workspace.work_folder import Workspace

Receipt = dict[str, Any]
Named = Callable[..., tuple[str, str]]


class TaskWithReceipt:
    """A task function that is not run again where its receipt is found."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Receipt], receipt: Named) -> None:
        functools.update_wrapper(self, function)
        self._function, self._receipt = function, receipt

    def __call__(self, out_dir: str, *task: Any) -> Receipt:
        """The receipt of the task, after running it if there was none."""
        return self.find(out_dir, *task) or self._function(out_dir, *task)

    def find(self, out_dir: str, *task: Any) -> Receipt | None:
        """The receipt that the task left, or None when it has to be run."""
        return Workspace(out_dir).receipt(*self._receipt(out_dir, *task))

    def __reduce__(self) -> str:
        return self.__qualname__  # by name, as functions travel


def leaves_receipt(receipt: Named) -> Callable[[Callable[..., Receipt]], TaskWithReceipt]:
    """Make a function a task; `receipt` gives stage and name of its receipt from its arguments."""
    return lambda function: TaskWithReceipt(function, receipt)


def bytes_and_tokens(result: tuple[int, Receipt]) -> tuple[int, int]:
    """Bytes read and tokens made by a task, for the progress shown."""
    receipt = result[1]
    tokens = sum(part["tokens"] for part in receipt.get("parts", ()))
    return receipt.get("counts", {}).get("bytes_in", 0), tokens
