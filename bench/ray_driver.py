"""How many results of trivial tasks the driver takes from Ray in a second.

Next to it, in the same run: Ray itself, with the tasks one by one, at most 4,096 in progress, all
that are ready taken at a time; and the loop that this driver had before, which waits for one result
and asks for the size of the cluster each time.
"""

import argparse
import json
import time
from pathlib import Path

import ray
from measure import machine

from tokenmill.executors.ray import RayExecutor

RESULTS = Path(__file__).parent / "results" / "ray_driver.json"


def double(number: int) -> int:
    return 2 * number


def ours(tasks: int) -> float:
    with RayExecutor() as executor:
        list(executor.run(double, ((n, (n,)) for n in range(100))))  # workers start
        began = time.perf_counter()
        results = dict(executor.run(double, ((n, (n,)) for n in range(tasks))))
        seconds = time.perf_counter() - began
    assert results == {n: 2 * n for n in range(tasks)}
    return tasks / seconds


def one_by_one(tasks: int, in_progress: int, *, all_ready: bool) -> float:
    remote = ray.remote(double)
    ray.get([remote.remote(n) for n in range(100)])
    began = time.perf_counter()
    waiting, total, begun = [], 0, 0
    while begun < tasks or waiting:
        if not all_ready:
            ray.cluster_resources()
        while begun < tasks and len(waiting) < in_progress:
            waiting.append(remote.remote(begun))
            begun += 1
        ready, waiting = ray.wait(waiting, num_returns=1)
        if all_ready and waiting:
            more, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=0)
            ready += more
        total += sum(ray.get(ready))
    assert total == tasks * (tasks - 1)
    return tasks / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    options = parser.parse_args()
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    found = {
        "machine": machine(),
        "results per second": round(ours(options.tasks)),
        "Ray, one by one": round(one_by_one(options.tasks // 10, 4096, all_ready=True)),
        "as before": round(one_by_one(options.tasks // 50, 4096, all_ready=False)),
    }
    ray.shutdown()
    print(json.dumps(found, indent=2))
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
