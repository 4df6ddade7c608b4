"""Promise: a Ray cluster makes the same bytes as one machine, also when it loses a node."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import flat
import pytest
from preparation.runs import done_tasks
from small_corpus import files_of, write_corpus

import tokenmill
from tokenmill.base.progress import Progress
from tokenmill.errors import BadInputError, MissingExtraError, PrepareError

SETTINGS = {"tokenizer": "bytes", "tokens_per_shard": 20_000, "unit_bytes": 15_000}
# A dead node is noticed after seconds, not after half a minute.
HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1500,
    "health_check_failure_threshold": 3,
}


@pytest.fixture(scope="module")
def cluster():
    """Three nodes of one CPU on this machine."""
    pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 << 20}
    head = {**small, "include_dashboard": False, "_system_config": HEALTH}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(**small, wait=False) for _ in range(2)]
    cluster.wait_for_nodes()
    yield cluster, nodes
    cluster.shutdown()


class KillNode(Progress):
    """Ends a node, hard, when some units are encoded and others are under way."""

    def __init__(self, cluster, node):
        self.cluster, self.node, self.seen = cluster, node, 0

    def follow(self, what, results, **total):
        for result in results:
            self.seen += what == "encode"
            if self.seen == 3 and self.node is not None:
                self.cluster.remove_node(self.node, allow_graceful=False)
                self.node = None
            yield result


class Stop(Progress):
    """A driver that ends in the middle."""

    def follow(self, what, results, **total):
        for number, result in enumerate(results):
            if what == "encode" and number == 3:
                raise KeyboardInterrupt
            yield result


def test_a_cluster_makes_the_same_bytes_although_a_node_is_killed(cluster, tmp_path):
    cluster, nodes = cluster
    write_corpus(tmp_path / "corpus")
    flat.prepare(tmp_path / "corpus", tmp_path / "expected", workers=1, **SETTINGS)
    ray = {"engine": "ray", "ray_address": cluster.address, **SETTINGS}

    with pytest.raises(KeyboardInterrupt):
        flat.prepare(tmp_path / "corpus", tmp_path / "out", progress=Stop(), **ray)
    done = len(done_tasks(tmp_path / "out" / ".preparation", "units"))
    killer = KillNode(cluster, nodes[0])
    flat.prepare(tmp_path / "corpus", tmp_path / "out", progress=killer, **ray)

    assert done >= 3  # the second driver went on from there
    assert killer.node is None
    assert files_of(tmp_path / "out") == files_of(tmp_path / "expected")

    for name, where in (("here", {"workers": 1, **SETTINGS}), ("there", ray)):
        flat.prepare(tmp_path / "corpus", tmp_path / name, compress="zstd:1", **where)
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")

    (tmp_path / "bad.jsonl").write_text('{"text": "fine"}\n{"text": broken\n')
    with pytest.raises(BadInputError, match=r"bad\.jsonl") as caught:
        flat.prepare(tmp_path / "bad.jsonl", tmp_path / "bad", **ray)
    assert caught.value.source == "bad.jsonl"


def test_our_error_is_all_that_is_said_when_a_worker_dies(cluster):
    """Ray's own pages about it are neither before nor after it, nor in what programs read."""
    code = """if True:
        import os, signal, sys
        from tokenmill.errors import BadInputError, TokenmillError
        from tokenmill.executors.ray import RayExecutor

        def die(_):
            os.kill(os.getpid(), signal.SIGKILL)

        def refuse(_):
            raise BadInputError("this input is bad")

        for task in (refuse, die):
            try:
                with RayExecutor(sys.argv[1], at_once=1) as cluster:
                    list(cluster.run(task, enumerate([(1,)])))
            except TokenmillError as error:
                assert error.__cause__ is None
                print(error.message, file=sys.stderr)
    """

    done = subprocess.run(
        [sys.executable, "-c", code, cluster[0].address], capture_output=True, text=True
    )

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "this input is bad",
        "a Ray worker died 4 times (WorkerCrashedError) at die",
    ]


def test_without_ray_the_message_says_how_to_get_it(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("words\n")
    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(MissingExtraError, match=r"tokenmill\[ray\]"):
        flat.prepare(tmp_path / "a.txt", tmp_path / "out", engine="ray")


def test_a_cluster_that_is_not_there_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("words\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"

    with pytest.raises(PrepareError, match=f"no Ray cluster answers at '{address}'"):
        flat.prepare(tmp_path / "a.txt", tmp_path / "out", engine="ray", ray_address=address)


@pytest.mark.parametrize("address", ["nonsense", "localhost:abc"])
def test_an_address_that_ray_cannot_read_is_named(tmp_path, address):
    pytest.importorskip("ray", reason="Ray is not installed")
    (tmp_path / "a.txt").write_text("words\n")

    with pytest.raises(PrepareError, match=f"no Ray cluster answers at '{address}'"):
        flat.prepare(tmp_path / "a.txt", tmp_path / "out", engine="ray", ray_address=address)


@pytest.fixture
def guarded_cluster(tmp_path):
    """Address and token of a cluster that asks for one, as Ray 2.60 starts it by default."""
    pytest.importorskip("ray", "2.60", reason="older ones ask for no token")
    code = """if True:
        import sys
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        print(cluster.address, flush=True)
        sys.stdin.read()
        cluster.shutdown()
    """
    token = "0123456789abcdef" * 4
    asks = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=asks,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as head:
        yield head.stdout.readline().strip(), token


def test_a_cluster_that_asks_for_a_token_says_so(guarded_cluster, tmp_path):
    address, token = guarded_cluster
    (tmp_path / "a.txt").write_text("words\n")
    command = [sys.executable, "-m", "tokenmill", "prepare", "a.txt", "-o", "out", "--engine"]
    command += ["ray", "--ray_address", address, "--tokenizer", "bytes"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    plain |= {"HOME": str(tmp_path), "RAY_NUM_REDIS_GET_RETRIES": "1"}

    def run(**variables):
        return subprocess.run(
            command, env={**plain, **variables}, cwd=tmp_path, capture_output=True, text=True
        )

    wrong = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token[::-1]}
    for variables in ({}, {"RAY_AUTH_MODE": "token"}, wrong, {"RAY_AUTH_TOKEN": token}):
        refused = run(**variables)
        assert refused.returncode == 1, refused.stderr
        assert f"the Ray cluster at '{address}' asks for a token" in refused.stderr
        assert "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert run(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token).returncode == 0


def test_a_ray_that_does_not_start_is_not_a_cluster_that_does_not_answer(tmp_path):
    """Ray writes a new token into the home folder, which is not always writable."""
    pytest.importorskip("ray", "2.60", reason="older ones ask for no token")
    (tmp_path / "a.txt").write_text("words\n")
    (tmp_path / ".ray").write_text("a file where Ray needs a folder\n")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}

    done = subprocess.run(
        [sys.executable, "-m", "tokenmill", "prepare", "a.txt", "-o", "out", "--engine", "ray"],
        env={**plain, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert "error: Ray does not start on this machine: " in done.stderr
    assert "leave --engine ray out" in done.stderr


def test_engines_are_checked_before_anything_is_done(tmp_path):
    with pytest.raises(ValueError, match="known are: local, ray"):
        flat.prepare("a.txt", tmp_path / "out", engine="rya")
    with pytest.raises(ValueError, match="ray_address"):
        flat.prepare("a.txt", tmp_path / "out", ray_address="auto")
    assert not (tmp_path / "out").exists()


def test_a_node_that_does_not_see_the_folder_says_so(tmp_path):
    from tokenmill.executors.ray import run_here

    with pytest.raises(PrepareError, match="does not see /nowhere/to/be/found"):
        run_here(tokenmill.__version__, "/nowhere/to/be/found", len, [(0, ((),))])


def test_importing_the_executor_loads_no_ray():
    code = "import sys, tokenmill.executors.ray; print('ray' in sys.modules)"
    source = str(Path(tokenmill.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": source}
    )
    assert done.stdout.strip() == "False"
