"""Damage in what a server sends, and in the folder of a preparation that was stopped."""

import json
import os
import random
import shutil
import threading
from pathlib import Path

import flat
from hub.conftest import QUICK, REPO, llmc_shard
from hub.fake_hub import FakeHub, describe
from small_corpus import files_of

from tokenmill.base.progress import Progress
from tokenmill.errors import Stopped
from tokenmill.hub.pull import download

SHARDS = {f"x_train_{n:06d}.bin": llmc_shard(n, 400) for n in range(2)}
COMMIT = "c0ffee" * 6 + "beef"
PREPARATION = {"tokenizer": "bytes", "tokens_per_shard": 400, "unit_bytes": 300, "workers": 1}
_hub: list[FakeHub] = []  # one a process, started when it is first needed


def make_listing(folder: Path) -> None:
    """The hub's answers: which commit a revision names, and its files."""
    info = {"id": REPO, "sha": COMMIT, "siblings": [], "tags": [], "private": False}
    (folder / "info.json").write_text(json.dumps(info))
    entries = [describe(name, data) for name, data in SHARDS.items()]
    (folder / "tree.json").write_text(json.dumps(entries))


def read_listing(folder: Path, sound: dict[str, bytes]) -> None:
    """A download by these answers: what gets its name is what the hub has under it."""
    hub = _started_hub()
    hub.faults.clear()
    for name in ("info", "tree"):
        hub.fault(f"api:{name}", "body", times=2, body=(folder / f"{name}.json").read_bytes())
    target = folder.parent / "downloaded" / "inside"
    shutil.rmtree(target.parent, ignore_errors=True)
    try:
        download(REPO, target, shards=2, workers=1, retry=QUICK, progress=False)
    finally:
        found = files_of(target.parent) if target.parent.exists() else {}
        shards = {name: data for name, data in found.items() if "/.tokenmill/" not in name}
        for name, data in shards.items():
            assert data == SHARDS.get(name.removeprefix("inside/")), f"{name} has other bytes"


def _started_hub() -> FakeHub:
    if not _hub:
        threading.stack_size(1 << 18)  # many threads in little memory
        hub = FakeHub()
        hub.commit(REPO, SHARDS)
        hub.trees[REPO, COMMIT] = dict(SHARDS)
        hub.refs[REPO, COMMIT] = COMMIT
        os.environ.update(HF_ENDPOINT=hub.endpoint, HF_HUB_DISABLE_XET="1", HF_TOKEN="hf_None")
        _hub.append(hub)
    return _hub[0]


def make_records(folder: Path) -> None:
    """A finished download, with what it keeps about itself."""
    _started_hub()
    download(REPO, folder, shards=2, workers=1, retry=QUICK, progress=False)
    for path in folder.glob("*.bin"):
        path.unlink()  # so that the records alone are damaged


def read_records(folder: Path, sound: dict[str, bytes]) -> None:
    """The same download again, by records that may be anything."""
    _started_hub().faults.clear()
    try:
        download(REPO, folder, shards=2, workers=1, retry=QUICK, progress=False)
        found = {name: data for name, data in files_of(folder).items() if name.endswith(".bin")}
        assert found == SHARDS, "the files are others"
    finally:
        shutil.rmtree(folder)
        folder.mkdir()
        for name, data in sound.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


class StopAtTheShards(Progress):
    """Ends a preparation when all is encoded and the first shard is there."""

    def follow(self, what, results, **total):
        for result in super().follow(what, results, **total):
            yield result
            if what == "assemble":
                raise Stopped("stopped by the test")


def lose_power(data: bytes, chance: random.Random) -> bytes:
    """What a machine leaves that lost its power: a file is shorter, or zeros from some place on."""
    at = chance.randrange(len(data) + 1)
    return data[:at] + bytes(chance.choice((0, len(data) - at)))


def make_stopped(folder: Path) -> None:
    """A preparation that was stopped, beside its input."""
    rows = [json.dumps({"text": f"document {n} of the mill\nsame line of all"}) for n in range(30)]
    (folder / "a.jsonl").write_text("\n".join(rows))
    try:
        flat.prepare(folder / "a.jsonl", folder / "out", progress=StopAtTheShards(), **PREPARATION)
    except Stopped:
        return
    raise AssertionError("it was not stopped")


def read_stopped(folder: Path, sound: dict[str, bytes]) -> None:
    """Resume it: the files of an undisturbed run, or an error; then again after --overwrite."""
    expected = _undisturbed(folder)
    try:
        flat.prepare(folder / "a.jsonl", folder / "out", **PREPARATION)
        assert files_of(folder / "out") == expected, "the dataset is another"
    finally:
        shutil.rmtree(folder / "out", ignore_errors=True)
        for name, data in sound.items():
            if name.startswith("out/"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)


def read_after_power_loss(folder: Path, sound: dict[str, bytes]) -> None:
    """The same on a machine that was started again since."""
    (folder / "out" / ".preparation" / "boot").write_text("an earlier one")
    read_stopped(folder, sound)


_expected: dict[str, bytes] = {}


def _undisturbed(folder: Path) -> dict[str, bytes]:
    if not _expected:
        out = folder.parent / "undisturbed"
        shutil.rmtree(out, ignore_errors=True)
        flat.prepare(folder / "a.jsonl", out, **PREPARATION)
        _expected.update(files_of(out))
    return _expected
