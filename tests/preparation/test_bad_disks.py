"""Files and their disks: a fault is named and the run resumes, modes are right, none stays open."""

import gzip
import os
import resource
import stat

import pytest
from flat import prepare
from preparation.oracle import hashes_of_files
from preparation.runs import assert_nothing_stray, run
from small_corpus import write_corpus
from system_faults import injecting, needs_strace, small_disk

import tokenmill
from tokenmill.base.progress import Progress
from tokenmill.conversion.convert import convert
from tokenmill.errors import BadInputError, PrepareError

SETTINGS = {"tokenizer": "bytes", "tokens_per_shard": 20_000, "unit_bytes": 15_000, "workers": 1}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus") / "corpus"
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def untouched(corpus, tmp_path_factory):
    """Hashes of all files of a run on a good disk."""
    out = tmp_path_factory.mktemp("untouched") / "out"
    prepare(corpus, out, **SETTINGS)
    return hashes_of_files(out)


def write_input(path):
    """Lines of text in the kind of file that the name asks for."""
    lines = [f"line number {n} of the text" for n in range(2000)]
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"text": lines}), path, row_group_size=500)
    else:
        data = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@needs_strace
@pytest.mark.parametrize(
    ("name", "number"),
    [("a.txt", 1), ("a.txt.gz", 2), ("a.txt.gz", 4), ("a.parquet", 2), ("a.parquet", 5)],
)
def test_a_read_error_names_the_file_and_the_run_resumes(tmp_path, name, number):
    """The kernel gives EIO for one read of the input: when its kind is detected, or later."""
    write_input(tmp_path / name)
    wanted = {"inputs": tmp_path / name, "out_dir": tmp_path / "out", **SETTINGS}
    failing = injecting(f"error=EIO:when={number}", "read,pread64")

    code, errors = run(wanted, [*failing, "-P", str(tmp_path / name)])

    assert code == 1
    assert f"cannot read {tmp_path / name}: Input/output error" in errors
    assert "is failing" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out" / "dataset_metadata.json").exists()
    prepare(tmp_path / name, tmp_path / "out", **SETTINGS)
    assert_nothing_stray(tmp_path / "out")


@needs_strace
def test_a_write_error_names_the_disk_and_the_run_resumes(corpus, untouched, tmp_path):
    out = tmp_path / "out"
    wanted = {"inputs": corpus, "out_dir": out, **SETTINGS}

    code, errors = run(wanted, injecting("error=EIO:when=20", "write"))

    assert code == 1
    assert f"the disk that holds {out} is failing: Input/output error" in errors
    assert "the same command resumes" in errors
    prepare(corpus, out, **SETTINGS)
    assert hashes_of_files(out) == untouched


@needs_strace
def test_a_shard_that_did_not_reach_the_disk_is_made_again(corpus, untouched, tmp_path):
    """After a failed fsync the kernel forgets: asked again, it would say that all is well."""
    out = tmp_path / "out"
    shard = out / "train" / "shard_00001.bin"
    wanted = {"inputs": corpus, "out_dir": out, **SETTINGS}

    code, errors = run(wanted, [*injecting("error=EIO", "fsync"), "-P", str(shard)])

    assert code == 1
    assert "is failing: Input/output error" in errors
    assert not shard.exists()
    assert (out / "train" / "shard_00000.bin").exists()
    assert not (out / "dataset_metadata.json").exists()
    prepare(corpus, out, **SETTINGS)
    assert hashes_of_files(out) == untouched
    assert_nothing_stray(out)


class AfterTheFirstShard(Progress):
    """Does something right after the first shard is finished, while no other one is written."""

    def __init__(self, act):
        self.act = act

    def follow(self, what, results, **total):
        for number, result in enumerate(super().follow(what, results, **total)):
            if what == "assemble" and number == 0:
                self.act()
            yield result


def test_a_disk_that_fills_up_while_shards_are_written(corpus, tmp_path):
    """The rest of the disk is taken away once the first shard is there."""
    wanted = {"inputs": corpus, **SETTINGS, "tokens_per_shard": 5000}
    prepare(out_dir=tmp_path / "untouched", **wanted)
    untouched = hashes_of_files(tmp_path / "untouched")
    with small_disk(tmp_path / "disk", 20 << 20) as disk:
        out = wanted["out_dir"] = disk.path / "out"
        fill_up = AfterTheFirstShard(lambda: disk.resize(disk.used + (16 << 10)))
        with pytest.raises(PrepareError) as failed:
            prepare(**wanted, progress=fill_up)

        assert f"cannot write to {out}: No space left on device (" in str(failed.value)
        assert "the same command resumes" in str(failed.value)
        assert not [path for path in out.rglob("*.tmp")]
        found = hashes_of_files(out)
        shards = {name: found[name] for name in found if name.startswith(("train/", "val/"))}
        assert 0 < len(shards) < len(untouched) / 2
        assert shards == {name: untouched[name] for name in shards}  # each complete, or missing

        disk.resize(20 << 20)
        prepare(**wanted)
        assert hashes_of_files(out) == untouched
        assert_nothing_stray(out)


def test_a_limit_that_cuts_a_shard_short(corpus, tmp_path):
    """The kernel writes a part of what it is given, then refuses the rest."""
    out = tmp_path / "out"
    wanted = {"inputs": corpus / "a.jsonl", "out_dir": out, **SETTINGS}

    def limit():
        # More than any file of a unit has, less than a shard of 20,000 tokens.
        resource.setrlimit(resource.RLIMIT_FSIZE, (35_000, 35_000))

    code, errors = run(wanted, preexec_fn=limit)

    assert code == 1
    assert "File too large" in errors
    assert (out / ".preparation" / "layout.json").exists()  # it came as far as the shards
    assert not [path for path in out.rglob("*.tmp")]
    prepare(**wanted)
    prepare(**{**wanted, "out_dir": tmp_path / "untouched"})
    assert hashes_of_files(out) == hashes_of_files(tmp_path / "untouched")


@pytest.mark.parametrize(("umask", "workers"), [(0o077, 2), (0o002, 1)])
def test_files_and_folders_have_the_mode_that_umask_asks_for(corpus, tmp_path, umask, workers):
    before = os.umask(umask)
    try:
        prepare(corpus, tmp_path / "out", **{**SETTINGS, "workers": workers})
        convert(tmp_path / "out", tmp_path / "npy", to="npy")
    finally:
        os.umask(before)

    made = [tmp_path / "out", *tmp_path.rglob("*/*"), tmp_path / "npy"]
    assert len(made) > 10
    for path in made:
        most = 0o777 if path.is_dir() else 0o666
        assert stat.S_IMODE(path.stat().st_mode) == most & ~umask, path


def test_no_file_is_left_open_however_often(tmp_path):
    """Prepared, added to, refused and read again and again: as many open files as at first."""
    inputs = [tmp_path / name for name in ("a.txt", "b.txt.gz", "c.parquet")]
    for path in inputs:
        write_input(path)
    (tmp_path / "bad.jsonl").write_text('{"text": "good"}\n{"text": \n')
    open_files = []
    for number in range(6):
        out = tmp_path / str(number)
        prepare(inputs[0], out, tokenizer="bytes", workers=1, dedup="none")
        prepare(inputs[1:], out, append=True, workers=1)
        with pytest.raises(BadInputError):
            prepare(tmp_path / "bad.jsonl", tmp_path / f"bad{number}", tokenizer="bytes", workers=1)
        for backend in ("mmap", "pread"):
            data = tokenmill.open(out, "train", backend=backend)
            loader = tokenmill.BatchLoader(data, batch_size=4, block_size=64, epochs=1)
            assert sum(1 for _ in loader) > 10
        del data, loader
        open_files.append(len(os.listdir("/proc/self/fd")))

    assert open_files[-1] <= open_files[1]
