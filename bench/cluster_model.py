"""How long a preparation takes on a cluster: a simulation of its tasks, fed with measured ones.

First text is prepared here by two processes, and the seconds of every task are kept. The simulation
(discrete events: workers take groups of tasks from a bounded queue, the driver takes results one
after another, machines die and their groups are run again) is given the measured seconds, drawn at
random, and must come to the seconds of that run. Then it is asked for 10 TB on 16, 64 and 256
machines of 32 cores, with units of 610 MB and the work in a bucket of 5 and 20 GB/s.

What is measured here: CPU seconds of each stage (and their spread), results that the driver takes,
requests and bytes of a unit (bucket.json). What is assumed is in `ASSUMED`, and says so.
"""

import argparse
import heapq
import itertools
import json
import math
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from corpus import documents, write_text
from measure import machine

import tokenmill
from tokenmill.base.progress import Progress
from tokenmill.executors.executor import run_group
from tokenmill.executors.ray import SECONDS_PER_GROUP
from tokenmill.preparation import Run, stage_table

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from other_engine import FuturesEngine

RESULTS = Path(__file__).parent / "results" / "cluster_model.json"
WORKERS = 2
ASSUMED = {
    "seconds of a request": 0.03,
    "requests in progress, a process": 16,
    "requests a second of the store": 5500 * 16,  # S3 states 5,500 for each of its partitions
    "GB/s of a machine": 3.0,
    "machines lost an hour, of 100": 1.0,
    "cores of a machine": 32,
}
BYTES = 10e12
UNITS = 16_384
PARTITIONS = 128
SHARDS = 10_000
BYTES_PER_LINE = 100
TOKENS_PER_BYTE = 0.25
RESULTS_PER_SECOND = 730
"""What the driver took before it took groups: a group is one result."""


def timed_group(function, group):
    """On a worker: also the seconds of each task, processor and clock."""
    results = []
    for task in group:
        cpu, began = time.process_time(), time.perf_counter()
        results += run_group(function, [task])
        seconds = time.process_time() - cpu, time.perf_counter() - began
        seconds_of.append((function.__name__, *seconds))
    taken, seconds_of[:] = list(seconds_of), []
    return [(number, (result, taken)) for number, result in results]


seconds_of: list[tuple[str, float, float]] = []


class TimedEngine(FuturesEngine):
    """Keeps the seconds of all tasks, by their function."""

    def __init__(self, pool) -> None:
        super().__init__(pool, at_once=2 * WORKERS, together=1)
        self.seconds = defaultdict(list)

    def run(self, function, tasks, size=None):
        import other_engine

        other_engine.engine.run_group, kept = timed_group, other_engine.engine.run_group
        try:
            for number, (result, taken) in super().run(function, tasks):
                for name, cpu, seconds in taken:
                    self.seconds[name].append((cpu, seconds))
                yield number, result
        finally:
            other_engine.engine.run_group = kept


class StageSeconds(Progress):
    """Seconds of each stage, as the driver sees them."""

    def __init__(self) -> None:
        self.seconds = {}

    def follow(self, what, results, **options):
        began = time.perf_counter()
        yield from results
        self.seconds[what] = time.perf_counter() - began


def real_run(megabytes: int):
    """Prepare text here; return its size, the seconds of tasks, of stages, and of all."""
    stage_table.has_room_for_text = lambda plan: False  # as with the work in a bucket
    with tempfile.TemporaryDirectory() as folder:
        size = write_text(documents(None), Path(folder, "corpus.txt"), megabytes)
        engine = TimedEngine(ProcessPoolExecutor(WORKERS, get_context("spawn")))
        list(engine.pool.map(time.sleep, [0.5] * 2 * WORKERS))  # they have started
        stages = StageSeconds()
        tokenmill.prepare(
            Path(folder, "corpus.txt"),
            Path(folder, "out"),
            separator="<|endoftext|>",
            clean=True,
            dedup="lines",
            tokens_per_shard=1_000_000,
            run=Run(unit_bytes=size // 64, progress=stages, engine=engine),
        )
    assert len(engine.seconds["hash_lines"]) > 60
    return size, engine.seconds, stages.seconds


def simulate(durations, workers, chance, *, per_result=0.0, lost_per_second=0.0, group=1):
    """Seconds of one stage: `durations` yields those of each task, in groups of `group`.

    `lost_per_second`: rate at which one worker is lost, with the group that it is at.
    """
    tasks = [sum(durations[at : at + group]) for at in range(0, len(durations), group)]
    tasks.reverse()
    events = []  # when each worker is done
    counter = itertools.count()
    driver = 0.0  # when the driver is free
    free = workers
    while tasks or events:
        while tasks and free:
            seconds = tasks.pop()
            begins = max(driver, 0.0)
            is_lost = lost_per_second and chance.random() < -math.expm1(-lost_per_second * seconds)
            ends = seconds * chance.random() if is_lost else seconds
            heapq.heappush(events, (begins + ends, next(counter), is_lost, seconds))
            free -= 1
        now, _, is_lost, seconds = heapq.heappop(events)
        driver = max(driver, now) + per_result
        free += 1
        if is_lost:
            tasks.append(seconds)
    return driver


def check(size, task_seconds, stage_seconds, names, chance):
    """Compare the simulation with the run that it was fed with."""
    found = {}
    for stage, function in names.items():
        known = [seconds for _, seconds in task_seconds[function]]
        drawn = chance.choices(known, k=len(known))
        found[stage] = {
            "tasks": len(known),
            "seconds": round(stage_seconds[stage], 2),
            "simulated": round(simulate(drawn, WORKERS, chance), 2),
        }
    total = {key: round(sum(f[key] for f in found.values()), 2) for key in ("seconds", "simulated")}
    return {**found, "all": {**total, "ratio": round(total["simulated"] / total["seconds"], 3)}}


def large(size, task_seconds, names, machines, gigabytes, chance):
    """10 TB on a cluster: seconds of each stage, and what it waits for most."""
    workers = machines * ASSUMED["cores of a machine"]
    bandwidth = min(gigabytes, machines * ASSUMED["GB/s of a machine"]) * 1e9
    unit, lines = BYTES / UNITS, BYTES / UNITS / BYTES_PER_LINE
    batches = math.ceil(lines / 2**20)
    tokens = 2 * TOKENS_PER_BYTE * unit
    hashes = 24 * lines
    # tasks, bytes and requests of each task, megabytes of text that its CPU seconds are for
    stages = {
        "lines": (UNITS, unit + hashes, unit / 4e6 + 8, unit),
        "line-duplicates": (
            PARTITIONS,
            UNITS * hashes / PARTITIONS,
            UNITS * (1 + batches),
            BYTES / PARTITIONS,
        ),
        "encode": (UNITS, unit + tokens, PARTITIONS * 3 + unit / 8e6 + 16, unit),
        "decide": (UNITS * 10, 0.01 * unit / 10, 3, unit / 10),
        "assemble": (SHARDS, 2 * tokens * UNITS / SHARDS, 60, BYTES / SHARDS),
    }
    per_byte = {stage: [] for stage in stages}
    for stage, function in names.items():
        known = task_seconds[function]
        share = size / len(known)
        per_byte[stage] = [cpu / share for cpu, _ in known]
    found, total = {}, 0.0
    for stage, (tasks, moved, requests, text) in stages.items():
        cpus = [seconds * text for seconds in chance.choices(per_byte[stage], k=tasks)]
        at_once = tasks / math.ceil(tasks / workers)
        waits = requests * ASSUMED["seconds of a request"]
        waits /= ASSUMED["requests in progress, a process"]
        waits = max(waits, at_once * requests / ASSUMED["requests a second of the store"])
        sent = moved * at_once / bandwidth
        durations = [cpu + waits + sent for cpu in cpus]
        lost = ASSUMED["machines lost an hour, of 100"] / 100 / 3600
        group = max(1, min(int(SECONDS_PER_GROUP * tasks / sum(durations)), tasks // workers // 4))
        seconds = simulate(
            durations,
            workers,
            chance,
            per_result=1 / RESULTS_PER_SECOND,
            lost_per_second=lost,
            group=group,
        )
        parts = {"processors": sum(cpus) / tasks, "requests": waits, "bytes": sent}
        parts = {name: round(tasks / at_once * part, 1) for name, part in parts.items()}
        parts["driver"] = round(tasks / group / RESULTS_PER_SECOND, 1)
        found[stage] = {
            "seconds": round(seconds, 1),
            "waits for": max(parts, key=parts.get),
            "terabytes": round(tasks * moved / 1e12, 2),
            "million requests": round(tasks * requests / 1e6, 2),
            **parts,
        }
        total += seconds
    slowest = max(found, key=lambda stage: found[stage]["seconds"])
    first = f"{slowest}: {found[slowest]['waits for']}"
    return {"minutes": round(total / 60, 1), "first bottleneck": first, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    chance = random.Random(options.seed)
    names = {
        "lines": "hash_lines",
        "line-duplicates": "search_partition",
        "encode": "encode_unit",
        "decide": "count_decisions",
        "assemble": "assemble_shard",
    }
    size, task_seconds, stage_seconds = real_run(options.megabytes)
    found = {
        "machine": machine(),
        "assumed": ASSUMED,
        "megabytes": round(size / 1e6, 1),
        "simulated and real": check(size, task_seconds, stage_seconds, names, chance),
    }
    for machines in (16, 64, 256):
        for gigabytes in (5, 20):
            name = f"{machines} machines, {gigabytes} GB/s"
            found[name] = large(size, task_seconds, names, machines, gigabytes, chance)
            print(name, found[name]["minutes"], found[name]["first bottleneck"], flush=True)
    print(json.dumps(found["simulated and real"], indent=2))
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
