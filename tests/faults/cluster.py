"""Machines that share nothing but a bucket lose their power; the dataset has the same bytes.

`ray`: three machines are a Ray cluster, whose driver runs on one of them. One is lost in every
stage, and a new one takes its place; that of the driver is lost, too, and the preparation continues
from another one. `jobs`: `plan` on one machine, `work` on eight, of which three are lost
at any time, `finish` on a tenth. The store answers 5 of 100 requests with 503, and breaks the
connection of one, before it answers or in the middle. The driver waits after the first result of a
stage until the machine is lost: so that is when others are in progress.
"""

import json
import os
import random
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import flat
from faults.forks import ROOT
from faults.machines import Machine, Network, why_not
from faults.tally import Tally
from small_corpus import files_of, write_corpus
from stores import servers
from stores.proxy import Proxy

from tokenmill.stores import objects

SETTINGS = {"tokenizer": "bytes", "tokens_per_shard": 15_000, "unit_bytes": 12_000}
CASES = {
    "lines": {"dedup": "lines", "compress": "zstd:1"},
    "documents": {"dedup": "documents", "compress": "zstd:1", "facts": True},
}
STAGES = {
    "lines": ("lines", "line-duplicates", "encode", "join", "decide", "assemble"),
    "documents": (
        *("encode", "join", "documents", "document-duplicates", "decide", "assemble", "facts"),
    ),
}
FAULTS = (*["503"] * 10, "cut", "lost", *[None] * 188)
WORKERS, LOST_WORKERS = 8, 3
# A machine that is gone is noticed after two seconds, not after half a minute.
HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1500,
    "health_check_failure_threshold": 3,
}
PORT = 6379
DRIVER = """
import json, sys
import flat
from tokenmill.base.progress import Progress
from tokenmill.errors import LockedError

class Tell(Progress):
    "Say when a stage has its first result, and wait for an answer."
    def follow(self, what, results, **options):
        for number, result in enumerate(results):
            if result[1] is not None and what in told:
                told.remove(what)
                print(what, flush=True)
                sys.stdin.readline()
            yield result

given = json.loads(sys.argv[1])
told = given.pop("told")
try:
    flat.prepare(given.pop("inputs"), given.pop("out"), progress=Tell(), **given)
except LockedError as error:
    print(f"refused: {error}", flush=True)
    sys.exit(3)
"""

WAIT = """
import sys, time
import ray
ray.init(sys.argv[1], log_to_driver=False, logging_level="error")
deadline = time.monotonic() + 300
while {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]} != set(sys.argv[2:]):
    assert time.monotonic() < deadline, ray.nodes()
    time.sleep(0.1)
"""


class Cluster:
    """A bucket, and machines that know only its address."""

    def __init__(self, network: Network, bucket: str, environ: dict[str, str]) -> None:
        self.network = network
        self.bucket = bucket
        self.environ = environ
        self.work = f"{bucket}/work"
        self.data = f"{bucket}/data"

    def program(self, machine: Machine, code: str, *words: str, **options) -> subprocess.Popen:
        command = [sys.executable, "-P", "-c", code, *words]
        return machine.run(command, self.environ, stdin=subprocess.PIPE, text=True, **options)

    def start_ray(self, name: str) -> Machine:
        """Start a machine with a node of Ray; the first one is the head of the cluster."""
        machine = self.network.start(name)
        ray = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1"]
        ray += ["--disable-usage-stats", f"--object-store-memory={80 << 20}"]
        ray.append(f"--node-ip-address={machine.address}")
        if name == "head":
            self.address = f"{machine.address}:{PORT}"
            ray += ["--head", f"--port={PORT}", "--include-dashboard=false"]
            ray += [f"--temp-dir={self.network.disk}", f"--system-config={json.dumps(HEALTH)}"]
        else:
            ray.append(f"--address={self.address}")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        machine.run(ray, self.environ, **quiet)
        return machine

    def wait_for_nodes(self) -> None:
        """Wait until the machines that are switched on, and no others, are nodes of Ray."""
        wanted = [machine.address for machine in self.network.machines.values()]
        quiet = {"stderr": subprocess.PIPE}
        head = self.network.machines["head"]
        waiting = self.program(head, WAIT, self.address, *wanted, **quiet)
        errors = waiting.communicate()[1]
        assert waiting.returncode == 0, errors[-800:]

    def has_begun(self) -> bool:
        """Return True if a task is done."""
        return bool(objects.list_below(f"{self.work}/receipts"))

    def drive(self, machine: Machine, told: list[str], **more) -> subprocess.Popen:
        """Start a driver; it stops at the first result of these stages."""
        given = {"inputs": f"{self.bucket}/raw", "out": self.data, "work_dir": self.work}
        given |= {"engine": "ray", "ray_address": self.address, "told": told, **SETTINGS, **more}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return self.program(machine, DRIVER, json.dumps(given), **streams)


def run_cluster(tally: Tally, scratch: Path, cases: list[str], repeats: int) -> None:
    """Lose machines of Ray in each case, and workers of numbered jobs so many times."""
    if why := why_not():
        tally.skip("machines", why)
        tally.add("machines", "skipped")  # a part that tries nothing at all has failed
        return
    with ExitStack() as running:
        server = servers.start("moto", scratch)
        running.callback(server.process.wait)
        running.callback(server.process.kill)
        (scratch / "disk").mkdir()
        network = running.enter_context(Network(scratch / "disk"))
        chance = random.Random(f"{tally.seed} faults")
        proxy = running.enter_context(
            Proxy(server.port, lambda request: chance.choice(FAULTS), host=network.gateway)
        )
        os.environ.update(server.variables())
        environ = _environ({**server.variables(), "AWS_ENDPOINT_URL": proxy.address})
        write_corpus(scratch / "raw")
        for name in cases:
            bucket = _bucket(server, f"ray-{name}", scratch / "raw")
            lose_machines(tally, Cluster(network, bucket, environ), scratch, name)
        for number in range(repeats):
            bucket = _bucket(server, f"jobs-{number}", scratch / "raw")
            lose_workers(tally, Cluster(network, bucket, environ), scratch, number)
        tally.add("store", "requests", len(proxy.requests))


def _environ(variables: dict[str, str]) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "RAY_", "PYTEST"))}
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    return {**kept, **variables, **token, "PYTHONPATH": paths}


def _bucket(server: servers.Server, name: str, raw: Path) -> str:
    bucket = server.make_bucket(name)
    for file, data in files_of(raw).items():
        objects.put(f"{bucket}/raw/{file}", data)
    return bucket


def lose_machines(tally: Tally, cluster: Cluster, scratch: Path, case: str) -> None:
    """Lose a machine in every stage, and that of the driver in one that is drawn."""
    what, settings = f"ray, {case}", CASES[case]
    chance = random.Random(f"{tally.seed} {case}")
    head = cluster.start_ray("head")
    names = ["a", "b"]
    for name in names:
        cluster.start_ray(name)
    cluster.wait_for_nodes()
    told = list(STAGES[case])
    drivers_end = chance.choice(told[:-1])
    driver = cluster.drive(cluster.network.machines["b"], told, **settings)
    _try_other_drivers(tally, cluster, head, what, driver, settings)
    while stage := driver.stdout.readline().strip():
        told.remove(stage)
        name = "b" if stage == drivers_end else "a"
        tally.add(f"{what}, {stage}", "machines lost")
        cluster.network.machines[name].kill()
        if stage == drivers_end:
            tally.add(what, "drivers lost")
            driver.wait()
            driver = _take_over(tally, cluster, head, what, told, settings)
        cluster.start_ray(name)
        cluster.wait_for_nodes()
        if stage != drivers_end:
            driver.stdin.write("\n")
            driver.stdin.flush()
    said = driver.communicate()[1]
    if told or driver.returncode:
        tally.fail(what, f"{driver.returncode} before {told}: {said[-800:]}")
    _compare(tally, cluster, scratch, what, settings)
    for name in ("a", "b", "head"):
        cluster.network.machines[name].kill()


def _try_other_drivers(tally, cluster, head, what, driver, settings) -> None:
    """While one driver works, another for the same work, and one with other work, are refused."""
    while not cluster.has_begun():
        assert driver.poll() is None, driver.stderr.read()[-800:]
    for work, reason in (
        (cluster.work, "is being written by process"),
        (f"{cluster.bucket}/other", "another preparation writes to"),
    ):
        other = cluster.drive(head, [], **settings, **{"work_dir": work})
        said, errors = other.communicate()
        if other.returncode == 3 and reason in said and " on b" in said:
            tally.add(what, "drivers refused by name")
        else:
            tally.fail(what, f"a second driver: {other.returncode} {said} {errors[-500:]}")


def _take_over(tally, cluster, head, what, told, settings) -> subprocess.Popen:
    """On another machine the lease of the lost one is respected, unless it is broken."""
    refused = cluster.drive(head, [], **settings)
    said, errors = refused.communicate()
    if "is being written by process" not in said or " on b" not in said:
        tally.fail(what, f"the lease of a lost driver: {said} {errors[-500:]}")
    return cluster.drive(head, told, break_lock=True, **settings)


def _compare(tally, cluster, scratch, what, settings) -> None:
    """The bytes are those of a run on this disk, and nothing is left in the bucket."""
    expected = scratch / f"expected-{settings['dedup']}"
    if not expected.exists():
        flat.prepare(scratch / "raw", expected, workers=1, **SETTINGS, **settings)
    found, wanted = servers.objects_of(cluster.data), files_of(expected)
    if wrong := sorted(n for n in found.keys() | wanted if found.get(n) != wanted.get(n)):
        tally.fail(what, f"other bytes in {wrong[:5]}")
    else:
        tally.add(what, "the same bytes")
    known = (f"{cluster.data}/", f"{cluster.bucket}/raw/")
    if left := [name for name in objects.list_below(cluster.bucket) if not name.startswith(known)]:
        tally.fail(what, f"{len(left)} objects are left over: {left[:5]}")


def lose_workers(tally: Tally, cluster: Cluster, scratch: Path, number: int) -> None:
    """plan, work on eight machines of which three are lost, finish."""
    chance = random.Random(f"{tally.seed} {number}")
    case = chance.choice(list(CASES))
    what, settings = f"jobs, {case}", CASES[case]
    given = json.dumps({"work_dir": cluster.work, **SETTINGS, **settings})
    code = "import flat, json, sys; flat.plan(*sys.argv[1:3], **json.loads(sys.argv[3]))"
    _on(cluster, "plan", code, f"{cluster.bucket}/raw", cluster.data, given)
    code = (
        "import sys; from tokenmill.preparation import jobs; "
        "from tokenmill.executors.numbered import JobPart; "
        "jobs.work(sys.argv[1], JobPart.parse(sys.argv[2]), wait=3)"
    )
    machines = [cluster.network.start(f"w{n}") for n in range(WORKERS)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    workers = [
        cluster.program(machine, code, cluster.work, f"{n}/{WORKERS}", **quiet)
        for n, machine in enumerate(machines)
    ]
    while not cluster.has_begun():
        assert any(worker.poll() is None for worker in workers)
    doomed = chance.sample(range(WORKERS), LOST_WORKERS)
    for n in doomed:
        with suppress(subprocess.TimeoutExpired):
            workers[n].wait(chance.uniform(0.0, 1.0))
        machines[n].kill()
        tally.add(what, "machines lost")
    for n, worker in enumerate(workers):
        errors = worker.communicate()[1]
        if n not in doomed and worker.returncode:
            tally.fail(what, f"part {n}: {worker.returncode} {errors[-800:]}")
        if n not in doomed:
            machines[n].kill()
    code = "import sys; from tokenmill.preparation import jobs; jobs.finish(sys.argv[1], workers=1)"
    _on(cluster, "finish", code, cluster.work)
    _compare(tally, cluster, scratch, what, settings)


def _on(cluster: Cluster, name: str, code: str, *words: str) -> None:
    """Run a program to its end on a machine that is there for it alone."""
    machine = cluster.network.start(name)
    program = cluster.program(machine, code, *words, stderr=subprocess.PIPE)
    errors = program.communicate()[1]
    assert program.returncode == 0, errors[-800:]
    machine.kill()
