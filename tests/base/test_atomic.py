"""Files are complete or do not exist, whatever is killed and whatever fails."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tokenmill.base import atomic
from tokenmill.base.atomic import (
    is_temporary,
    keep,
    new_file,
    remove,
    remove_whole,
    rename_durably,
    replace_folder,
    sync_descriptor,
    temporary_beside,
    write_atomically,
)
from tokenmill.errors import TokenmillError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def files_of_at_most(num_bytes):
    """The kernel cuts what this process writes: first a short write, then an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_link_in_the_way_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "file").symlink_to(tmp_path / "target")

    write_atomically(tmp_path / "file", b"new")

    assert (tmp_path / "target").read_bytes() == b"precious"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    (tmp_path / "file").write_bytes(b"old")

    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        write_atomically(tmp_path / "file", b"new" * 1000)

    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_new_file_is_seen_only_when_it_is_whole(tmp_path):
    path = tmp_path / "deep" / "file"

    with new_file(path) as file:
        file.write(b"half")
        file.flush()
        assert not path.exists()
        (left,) = names(path.parent)
        assert is_temporary(left)
        file.write(b" and half")

    assert path.read_bytes() == b"half and half"
    assert names(path.parent) == ["file"]


def test_a_process_killed_while_writing_leaves_the_old_file_and_a_name_that_is_known(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = """if True:
        import sys, time
        from pathlib import Path
        from tokenmill.base.atomic import new_file
        with new_file(Path(sys.argv[1])) as file:
            file.write(b"new")
            file.flush()
            print("written", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"written\n"
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert path.read_bytes() == b"old"
    (left,) = set(names(tmp_path)) - {"file"}
    assert is_temporary(left)
    assert f".{process.pid}-" in left


def test_a_reader_never_sees_half_a_file(tmp_path):
    """A writer replaces the file over and over; every read finds one version whole."""
    path = tmp_path / "file"
    write_atomically(path, b"0" * 5000)
    code = """if True:
        import sys
        from tokenmill.base.atomic import write_atomically
        for number in range(300):
            write_atomically(sys.argv[1], b"%d" % (number % 10) * 5000, durable=False)
    """
    process = subprocess.Popen([sys.executable, "-c", code, path])
    while process.poll() is None:
        found = path.read_bytes()
        assert found == found[:1] * 5000
        time.sleep(0.0005)
    assert process.returncode == 0


def test_a_durable_file_is_synced_before_its_folder(tmp_path, synced):
    write_atomically(tmp_path / "file", b"data")

    assert len(synced) == 2
    assert is_temporary(os.path.basename(synced[0]))
    assert synced[1] == str(tmp_path)


def test_a_file_that_need_not_be_durable_costs_no_sync(tmp_path, synced):
    with new_file(tmp_path / "file") as file:
        file.write(b"data")

    assert synced == []


def test_a_folder_that_is_missing_is_made_for_a_new_file_only(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "file", b"data")
    assert names(tmp_path) == []


def test_what_is_kept_already_is_not_replaced(tmp_path):
    keep(tmp_path / "file", b"data")
    first = (tmp_path / "file").stat()

    keep(tmp_path / "file", b"data")
    assert (tmp_path / "file").stat().st_ino == first.st_ino

    keep(tmp_path / "file", b"other")
    assert (tmp_path / "file").read_bytes() == b"other"


def test_a_rename_is_synced(tmp_path, synced):
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")

    rename_durably(tmp_path / "a", tmp_path / "b")

    assert (tmp_path / "b").read_bytes() == b"new"
    assert synced == [str(tmp_path)]


@pytest.mark.parametrize("there", ["folder", "file", "nothing"])
def test_a_folder_takes_the_place_of_what_was_there(tmp_path, there):
    new, target, aside = (tmp_path / name for name in ("new", "target", "aside"))
    new.mkdir()
    (new / "a").write_bytes(b"new")
    if there == "folder":
        target.mkdir()
        (target / "b").write_bytes(b"old")
    elif there == "file":
        target.write_bytes(b"old")

    replace_folder(new, target, aside)

    assert names(tmp_path) == ["target"]
    assert names(target) == ["a"]


def test_until_the_new_folder_is_there_the_old_one_is_aside(tmp_path, monkeypatch):
    new, target, aside = (tmp_path / name for name in ("new", "target", "aside"))
    new.mkdir()
    target.mkdir()
    (target / "b").write_bytes(b"old")

    def fail(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(atomic, "rename_durably", fail)
    with pytest.raises(OSError, match="gone"):
        replace_folder(new, target, aside)

    assert (aside / "b").read_bytes() == b"old"


def test_removing_a_link_leaves_what_it_points_to(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")

    remove(tmp_path / "link")
    remove(tmp_path / "missing")
    assert (tmp_path / "folder" / "file").exists()

    remove(tmp_path / "folder")
    assert names(tmp_path) == []


def test_a_folder_whose_removal_is_stopped_is_not_there_in_part(tmp_path, monkeypatch):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "model").touch()

    def fail(*_, **options):
        raise OSError("stopped")

    monkeypatch.setattr(os, "unlink", fail)
    with pytest.raises(OSError, match="stopped"):
        remove_whole(folder)

    assert all(map(is_temporary, names(tmp_path)))


@pytest.mark.parametrize("name", [".a.tmp", "a.1-00000000.tmp", ".a.12-ab.tmp", ".a.1-0a1b2c3d.tm"])
def test_names_of_others_are_not_taken_for_ours(name):
    assert not is_temporary(name)


def test_temporary_names_differ_and_are_known(tmp_path):
    found = {temporary_beside(tmp_path / "a\nb") for _ in range(100)}

    assert len(found) == 100
    assert all(path.parent == tmp_path and is_temporary(path.name) for path in found)


def test_what_a_file_system_cannot_sync_is_an_error_with_the_path_and_a_way_out(tmp_path):
    reading, writing = os.pipe()  # of which the kernel syncs none: EINVAL

    with pytest.raises(TokenmillError) as caught:
        sync_descriptor(writing, tmp_path / "shard_00000.bin")

    os.close(reading)
    os.close(writing)
    assert f"{tmp_path}/shard_00000.bin is on a file system that cannot sync it" in str(
        caught.value
    )
    assert "write to a local disk" in caught.value.hint


def test_any_other_failure_of_a_sync_names_the_path(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)

    with pytest.raises(OSError, match=rf"Bad file descriptor: '{tmp_path}'"):
        sync_descriptor(descriptor, tmp_path)


@pytest.mark.parametrize("place", ["nowhere/page.html", "file/page.html"])
def test_a_file_that_cannot_be_made_is_called_by_its_own_name(tmp_path, place):
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(OSError, match=rf"'{tmp_path}/{place}'"):
        write_atomically(tmp_path / place, b"a page")
