"""A pipe, a socket or a device in the place of a file is refused; opening it would never end."""

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from formats.our_files import write_ours
from manifests import rewrite

import tokenmill
from tokenmill.errors import FormatError, NotADatasetError

DATA = Path(__file__).parents[1] / "data"
DOORS = """
import faulthandler, json, sys
faulthandler.dump_traceback_later(60, exit=True)  # says where it waits
import tokenmill
from tokenmill.pages.report import report

def add(path):
    tokenmill.prepare("more.txt", path, append=True)

doors = {
    "open": tokenmill.open,
    "inspect": tokenmill.inspect,
    "verify": lambda path: tokenmill.verify(path, full=True),
    "report": report,
    "convert": lambda path: tokenmill.convert(path, "copy", to="npy"),
    "append": add,
    "decode": lambda path: tokenmill.open(path).decode([1]),
    "documents": lambda path: tokenmill.open(path).num_documents,
}
for name, path in json.load(sys.stdin):
    try:
        said = doors[name](path)
    except (tokenmill.TokenmillError, ValueError) as error:
        said = error
    print(json.dumps([name, path, str(said)]), flush=True)
"""


def pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


def in_place_of(folder, file):
    return pipe(folder / file).parent


def our_dataset(folder):
    return write_ours(folder, {"train": [[1] * 7, [2, 50256]]}, 10)


def with_an_empty_tokenizer(folder):
    """A manifest that promises 0 bytes, as a pipe has."""
    our_dataset(folder)
    rewrite(folder, lambda tree: tree["tokenizer"]["state"].update(bytes=0))
    return in_place_of(folder, "tokenizer_state.json")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What each way to open says about each file: all in one process, which must end."""
    folder = tmp_path_factory.mktemp("irregular")
    (folder / "more.txt").write_text("More text.")
    (folder / "device.bin").symlink_to("/dev/zero")
    (folder / "shards").mkdir()
    shutil.copytree(DATA / "megatron", folder / "megatron")
    plain = [
        pipe(folder / "pipe.bin"),
        pipe(folder / "pipe.npy"),
        pipe(folder / "pipe.pbin"),
        make_socket(folder / "socket.bin"),
        folder / "device.bin",
        in_place_of(folder / "shards", "x.bin"),
        in_place_of(folder / "megatron", next((DATA / "megatron").glob("*.idx")).name),
        in_place_of(our_dataset(folder / "shard"), "train/shard_00000.bin").parent,
        our_dataset(folder / "manifest"),
    ]
    pipe(folder / "manifest" / "dataset_metadata.json")
    asked = [
        (door, str(path))
        for path in plain
        for door in ("open", "inspect", "verify", "report", "convert")
    ]
    asked += [("append", str(folder / name)) for name in ("manifest", "shard")]
    empty = str(with_an_empty_tokenizer(folder / "tokenizer"))
    asked += [("verify", empty), ("decode", empty), ("append", empty)]
    done = subprocess.run(
        [sys.executable, "-c", DOORS],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(door, path) for door, path, _ in found] == asked
    return {(door, Path(path).name): said for door, path, said in found}


@pytest.mark.parametrize("door", ["open", "inspect", "verify", "report", "convert"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pipe.bin", "a named pipe, not a regular file"),
        ("pipe.npy", "a named pipe"),
        ("pipe.pbin", "a named pipe"),
        ("socket.bin", "a socket"),
        ("device.bin", "a device"),
        ("shards", "a named pipe"),
    ],
)
def test_it_is_named(answers, door, name, kind):
    assert kind in answers[door, name]


def test_in_a_dataset_it_is_refused_too(answers):
    """Every answer came, so nothing waited; what a pipe replaces counts as missing or damaged."""
    assert "a named pipe" in answers["append", "manifest"]
    assert "a named pipe" in answers["verify", "tokenizer"]
    assert "a named pipe" in answers["decode", "tokenizer"]
    assert all(said for said in answers.values())


def test_a_link_to_a_lost_shard_is_not_skipped(tmp_path):
    """A shard that is not there would be a shorter corpus, without a word."""
    llmc = sorted((DATA / "llmc").glob("*train*"))[0]
    (tmp_path / "a_train_000000.bin").write_bytes(llmc.read_bytes())
    (tmp_path / "a_train_000001.bin").symlink_to(tmp_path / "moved.bin")

    with pytest.raises(NotADatasetError, match=r"a_train_000001\.bin"):
        tokenmill.open(tmp_path)


def test_a_table_that_unpacks_to_one_endless_line_is_refused_early(tmp_path):
    """300 MB of one letter in 300 kB: only its first megabyte is unpacked."""
    (tmp_path / "part-0-00000.npy").write_bytes(bytes(200))
    packed = gzip.compress(b"1" * 1_000_000) * 300
    (tmp_path / "part-0-00000.csv.gz").write_bytes(packed)

    with pytest.raises(FormatError, match=r"part-0-00000\.csv\.gz"):
        _ = tokenmill.open(tmp_path, dtype="uint16").num_documents
