"""Run a preparation on any pool of the kind of `concurrent.futures`: an engine in 40 lines.

Pools of this kind are Dask's `client.get_executor()`, mpi4py's `MPIPoolExecutor`, loky's, and the
one of the standard library that is used here:

    python examples/other_engine.py corpus/ data/corpus

An engine is sent a function and numbered tasks. It calls `run_group(function, group)` on any
machine, any number of times, and yields the numbers and results of each task once, in any order.
What is killed there must be run again: a task is harmless if it runs twice. Tasks, results and the
function are small, and travel by pickle. All machines see the inputs and the work folder, which may
be an address: `Run(engine=..., work_dir="s3://bucket/tmp/job")`.
"""

import sys
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from itertools import islice

import tokenmill
from tokenmill.executors import executor as engine
from tokenmill.preparation import Run


class FuturesEngine(engine.Executor):
    """Runs tasks on a pool, `at_once` groups of `together` tasks at the same time."""

    def __init__(self, pool: Executor, at_once: int, together: int = 4) -> None:
        self.pool = pool
        self.at_once = at_once
        self.together = together

    def run(self, function, tasks, size=engine.one):
        tasks = iter(tasks)
        busy = set()
        while True:
            while len(busy) < self.at_once and (group := list(islice(tasks, self.together))):
                busy.add(self.pool.submit(engine.run_group, function, group))
            if not busy:
                return
            done, busy = wait(busy, return_when=FIRST_COMPLETED)
            for future in done:
                yield from future.result()  # an error of a task is raised here

    def close(self):
        self.pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    pool = FuturesEngine(ProcessPoolExecutor(2), at_once=4)
    print(tokenmill.prepare(sys.argv[1], sys.argv[2], run=Run(engine=pool)))
