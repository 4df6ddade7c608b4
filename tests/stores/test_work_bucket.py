"""Promise: a preparation whose work is in a bucket makes the same bytes as one in a folder."""

import os
import pickle
import random
import shutil
import signal
import sys
import time
import traceback
from dataclasses import replace

import flat
import orjson
import pytest
from small_corpus import files_of, write_corpus
from stores.proxy import Proxy
from stores.servers import objects_of

from tokenmill.errors import LockedError, SettingsMismatchError
from tokenmill.executors.executor import run_group
from tokenmill.executors.numbered import JobPart
from tokenmill.preparation import Run, jobs
from tokenmill.preparation.workspace import lease
from tokenmill.preparation.workspace.work_bucket import BucketPlace, WorkBucket, open_bucket
from tokenmill.stores import objects, store_requests

SETTINGS = {"tokenizer": "bytes", "tokens_per_shard": 20_000, "unit_bytes": 40_000}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder / "corpus", documents=150)
    return folder / "corpus"


@pytest.mark.parametrize(
    "settings",
    [
        {"dedup": "lines"},
        {"dedup": "documents", "compress": "zstd:1"},
        {"clean": True, "dedup": "lines", "val_fraction": 0},
        {"dedup": "none", "tokenizer": "chars"},
    ],
    ids=str,
)
def test_the_bytes_are_those_of_a_folder_and_nothing_is_left(corpus, bucket, tmp_path, settings):
    settings = {**SETTINGS, **settings}
    flat.prepare(corpus, tmp_path / "expected", workers=1, **settings)

    where = {"work_dir": f"{bucket}/work", "scratch": tmp_path / "scratch", "workers": 1}
    flat.prepare(corpus, f"{bucket}/data", **where, **settings)

    assert objects_of(f"{bucket}/data") == files_of(tmp_path / "expected")
    assert objects.list_below(f"{bucket}/work") == []
    assert [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "settings",
    [
        {"keep": "url,doc=meta.id", "dedup": "documents", "compress": "zstd:1"},
        {"keep": "url", "clean": True, "dedup": "lines"},
        {"dedup": "near", "near_words": 3, "facts": True},
        {"filter": "gopher_repetition", "dedup": "documents"},
        {"decontaminate": True, "decontaminate_words": 8, "on_contaminated": "cut"},
    ],
    ids=str,
)
def test_facts_rules_and_near_duplicates_are_found_in_a_bucket(bucket, tmp_path, settings):
    chance = random.Random(4)
    words = [f"word{n}" for n in range(300)]
    texts = [" ".join(chance.choices(words, k=30)) + "\nthe same line\n" for _ in range(300)]
    texts += [text.replace("word1 ", "word2 ") for text in texts[:99]] + ["word7 " * 40]
    rows = [
        {"text": text, "url": f"https://example.org/{n}", "meta": {"id": n}}
        for n, text in enumerate(texts)
    ]
    (tmp_path / "raw").mkdir()
    for name, some in (("a", rows[:250]), ("b", rows[250:])):
        lines = b"".join(orjson.dumps(row) + b"\n" for row in some)
        (tmp_path / "raw" / f"{name}.jsonl").write_bytes(lines)
    if settings.get("decontaminate"):
        items = b"".join(orjson.dumps({"question": text[:80]}) + b"\n" for text in texts[::50])
        (tmp_path / "test.jsonl").write_bytes(items)
        settings = {**settings, "decontaminate": str(tmp_path / "test.jsonl")}
    settings = {**SETTINGS, **settings, "unit_bytes": 20_000}
    flat.prepare(tmp_path / "raw", tmp_path / "expected", workers=1, **settings)

    where = {"work_dir": f"{bucket}/work", "scratch": tmp_path / "scratch"}
    flat.plan(tmp_path / "raw", f"{bucket}/data", **where, **settings)
    for number in (0, 1, 2, 0, 1, 2):  # each on a disk of its own
        part, disk = JobPart(number, 3), tmp_path / f"disk-{number}"
        jobs.work(f"{bucket}/work", part, scratch=disk)
    jobs.finish(f"{bucket}/work", workers=1, run=Run(scratch=tmp_path / "last"))

    assert objects_of(f"{bucket}/data") == files_of(tmp_path / "expected")
    assert objects.list_below(f"{bucket}/work") == []


def in_a_process(function, *args, **options):
    """Call a function in a process that was forked before any request; return its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(start(function, *args, **options), 0)[1])


def start(function, *args, **options):
    """The same, without waiting: its id. Forked processes start at once; this one asks no store."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        function(*args, **options)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def check(bucket, expected):
    """The dataset has these bytes, and the work is gone."""
    assert objects_of(f"{bucket}/data") == expected
    assert objects.list_below(f"{bucket}/work") == []


def work_with_kills(corpus, bucket, tmp_path, expected, chance, workers, kills, **settings):
    """plan, `workers` parts of which some are killed, finish; each with scratch of its own."""
    where = {"work_dir": f"{bucket}/work", "scratch": tmp_path / "plan"}
    assert in_a_process(flat.plan, corpus, f"{bucket}/data", **where, **settings) == 0
    pids = [
        start(
            jobs.work,
            f"{bucket}/work",
            JobPart(number, workers),
            wait=2,
            scratch=tmp_path / str(number),
        )
        for number in range(workers)
    ]
    doomed = set(chance.sample(pids, kills))
    for pid in doomed:
        time.sleep(chance.uniform(0, 1.5))
        os.kill(pid, signal.SIGKILL)
    ended = [os.waitpid(pid, 0)[1] for pid in pids if pid not in doomed]
    for pid in doomed:
        os.waitpid(pid, 0)
    assert set(ended) == {0}
    last = Run(scratch=tmp_path / "last")
    assert in_a_process(jobs.finish, f"{bucket}/work", workers=1, run=last) == 0
    assert in_a_process(check, bucket, expected) == 0


@pytest.mark.parametrize("settings", [{"dedup": "lines"}, {"dedup": "documents"}], ids=str)
def test_workers_killed_at_random_change_no_byte(settings, corpus, bucket, tmp_path):
    """A few of the kills of tests/faults/cluster.py."""
    settings = {**SETTINGS, "compress": "zstd:1", **settings}
    flat.prepare(corpus, tmp_path / "expected", workers=1, **settings)
    expected = files_of(tmp_path / "expected")

    work_with_kills(corpus, bucket, tmp_path, expected, random.Random(7), 4, 2, **settings)


def test_a_store_that_fails_changes_no_byte(
    corpus, bucket, tmp_path, moto_port, endpoint, monkeypatch
):
    """Five of a hundred requests are answered 503, and one connection of a hundred breaks."""
    monkeypatch.setattr(store_requests, "RETRY", replace(store_requests.RETRY, first_wait=0.01))
    chance = random.Random(3)
    faults = ["503"] * 10 + ["cut", "lost"] + [None] * 188
    settings = {**SETTINGS, "dedup": "lines", "compress": "zstd:1", "workers": 1}
    flat.prepare(corpus, tmp_path / "expected", **settings)

    with Proxy(moto_port, lambda request: chance.choice(faults)) as proxy:
        endpoint(proxy.address)
        where = {"work_dir": f"{bucket}/work", "scratch": tmp_path / "scratch"}
        assert in_a_process(flat.prepare, corpus, f"{bucket}/data", **where, **settings) == 0
        assert len(proxy.requests) > 200
    endpoint()

    assert in_a_process(check, bucket, files_of(tmp_path / "expected")) == 0


def test_of_two_drivers_one_is_refused_by_name(corpus, bucket, tmp_path):
    where = {"scratch": tmp_path / "scratch", "workers": 1, **SETTINGS}
    with (
        lease.hold_lease(f"{bucket}/work/lease", f"{bucket}/work", break_lock=False),
        pytest.raises(LockedError, match=rf"is being written by process {os.getpid()} on "),
    ):
        flat.prepare(corpus, f"{bucket}/data", work_dir=f"{bucket}/work", **where)
    assert objects.list_below(bucket) == []


def test_a_lease_ends_with_its_process_or_without_a_sign_of_life(bucket, monkeypatch):
    address = f"{bucket}/work/lease"
    dead = {"host": "elsewhere", "pid": 7, "started": "1"}
    objects.put(address, orjson.dumps(dead))
    with pytest.raises(LockedError, match="by process 7 on elsewhere"):
        lease.refuse_leased(address, "it")
    with pytest.raises(LockedError), lease.hold_lease(address, "it", break_lock=False):
        pass
    with lease.hold_lease(address, "it", break_lock=True):
        assert orjson.loads(objects.read_all(address, at_most=1000))["pid"] == os.getpid()

    objects.put(address, orjson.dumps(dead))
    monkeypatch.setattr(lease, "SECONDS", -1.0)
    with lease.hold_lease(address, "it", break_lock=False):
        pass
    assert objects.list_below(bucket) == []


def test_who_has_lost_a_lease_does_not_write_it_again(bucket):
    class Ended:
        """As a threading.Event, of which nobody waits for the seconds."""

        left = 3

        def wait(self, seconds):
            self.left -= 1
            return self.left < 0

    address = f"{bucket}/work/lease"
    with lease.hold_lease(address, "it", break_lock=False):
        mine = objects.read_all(address, at_most=1000)
        own = lease.Lease(address, "it", mine)
        own.renew(Ended())
        assert objects.read_all(address, at_most=1000) == mine
        objects.put(address, b"{}")
        own.renew(Ended())
        assert objects.read_all(address, at_most=1000) == b"{}"
    assert objects.read_all(address, at_most=1000) == b"{}"


def test_scratch_is_bounded_and_its_loss_is_harmless(corpus, bucket, tmp_path, monkeypatch):
    settings = {**SETTINGS, "dedup": "documents"}
    flat.prepare(corpus, tmp_path / "expected", workers=1, **settings)
    largest = []
    make_room = WorkBucket._make_room

    def watched(self, size):
        make_room(self, size)
        files = [path.stat().st_size for path in self._cache.iterdir()]
        largest.append(sum(files) + size)
        if len(largest) % 7 == 0:
            shutil.rmtree(self._cache)
            self._cache.mkdir()

    monkeypatch.setattr(WorkBucket, "_make_room", watched)
    where = {"work_dir": f"{bucket}/work", "scratch": tmp_path / "scratch"}
    flat.prepare(corpus, f"{bucket}/data", **where, max_scratch=300_000, workers=1, **settings)

    assert len(largest) > 14
    assert max(largest) <= 300_000
    check(bucket, files_of(tmp_path / "expected"))


@pytest.mark.parametrize("leaves_receipt", [True, False])
def test_what_a_late_worker_writes_is_removed_again(bucket, tmp_path, leaves_receipt):
    """Its plan is gone: `finish` was quicker, on another machine."""
    workspace = open_bucket(BucketPlace.of(f"{bucket}/work", tmp_path))
    for has_plan in (True, False):
        objects.put(workspace.address + "/plan.json", b"{}")
        with workspace.new("units", "1.0.tokens") as file:
            file.write(b"ids")
        workspace.keep("joined.json", b"[]")
        if leaves_receipt:
            workspace.leave_receipt("units", "1", ["1.0.tokens"], {})
        if not has_plan:
            objects.delete_all(objects.list_below(bucket))
            objects.put(f"{bucket}/work/units/1.0.tokens", b"ids")

        run_group(len, [])

        assert len(objects.list_below(bucket)) == has_plan * (3 + leaves_receipt)


def test_a_prefix_that_holds_something_else_is_refused(corpus, bucket, tmp_path):
    objects.put(f"{bucket}/work/precious.txt", b"mine")
    where = {"work_dir": f"{bucket}/work", "scratch": tmp_path, "workers": 1}

    with pytest.raises(SettingsMismatchError, match=r"holds 1 objects .* \(such as 'precious"):
        flat.prepare(corpus, f"{bucket}/data", **where, **SETTINGS)
    with pytest.raises(ValueError, match="one must not be inside the other"):
        flat.prepare(corpus, f"{bucket}/work/data", **where, **SETTINGS)
    assert objects.list_below(bucket) == [f"{bucket}/work/precious.txt"]


def test_a_place_keeps_what_it_says_on_its_way():
    place = BucketPlace.of("s3://bucket/work/", "/fast/disk", "3G")

    there = pickle.loads(pickle.dumps(place))

    assert (there, there.scratch, there.max_scratch) == ("s3://bucket/work", "/fast/disk", 3 << 30)
    assert there.run == place.run
