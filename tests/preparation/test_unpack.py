"""A large compressed file is read by all workers, with the same result as its text."""

import bz2
import gzip
import importlib
import json
import lzma
import random
import sys

import flat
import pytest
from flat import prepare
from preparation.oracle import hashes_of_files
from preparation.runs import start, wait_until

from tokenmill.errors import BadInputError
from tokenmill.executors.numbered import JobPart
from tokenmill.preparation import jobs
from tokenmill.preparation.planning.plan import load_plan
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import choose_unit_bytes, cut_into_units, worth_unpacking

zstd = importlib.import_module(
    "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
)
PACKERS = {
    "gz": lambda data: gzip.compress(data, 1),
    "bz2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": zstd.compress,
}
SETTINGS = {"tokenizer": "bytes", "val_fraction": 0.0, "dedup": "lines", "unit_bytes": 400_000}


@pytest.fixture(scope="module")
def rows():
    """Documents of several lines that hardly get smaller, a fifth of them seen before."""
    generator = random.Random(0)
    lines = [generator.randbytes(generator.randrange(8, 60)).hex() for _ in range(15_000)]
    return [
        "\n".join([*lines[at : at + 20], *generator.sample(lines, 5)])
        for at in range(0, len(lines), 20)
    ]


@pytest.fixture(scope="module")
def texts(rows):
    jsonl = "".join(json.dumps({"text": row}) + "\n" for row in rows)
    return {"jsonl": jsonl.encode(), "txt": "\n\n".join(rows).encode()}


def shards(folder):
    return {name: found for name, found in hashes_of_files(folder).items() if "shard_" in name}


def num_unpacked(out):
    plan = load_plan(out)
    return sum(plan.is_packed(unit) for unit in range(len(plan.units)))


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("kind", ["jsonl", "txt"])
def test_every_compression_gives_the_bytes_of_the_text(tmp_path, texts, kind, suffix):
    workers = 2 if suffix == "gz" else 1
    options = {"document_is": "paragraph"} if (kind, suffix) == ("txt", "zst") else {}
    found = {}
    for name, data in ((kind, texts[kind]), (f"{kind}.{suffix}", PACKERS[suffix](texts[kind]))):
        (tmp_path / f"a.{name}").write_bytes(data)
        flat.plan(tmp_path / f"a.{name}", tmp_path / name, **SETTINGS, **options)
        assert (num_unpacked(tmp_path / name) > 5) == name.endswith(suffix)
        prepare(tmp_path / f"a.{name}", tmp_path / name, workers=workers, **SETTINGS, **options)
        found[name] = shards(tmp_path / name)
    assert found[kind] == found[f"{kind}.{suffix}"]


def test_several_files_at_once(tmp_path, texts):
    for folder, suffix in (("text", ""), ("packed", ".gz")):
        (tmp_path / folder).mkdir()
        for number in range(3):
            data = texts["jsonl"][: texts["jsonl"].rindex(b"\n", 0, 300_000 * (number + 1)) + 1]
            packed = PACKERS["gz"](data) if suffix else data
            (tmp_path / folder / f"{number}.jsonl{suffix}").write_bytes(packed)
        prepare(tmp_path / folder, tmp_path / f"{folder}-out", workers=2, **SETTINGS)

    assert shards(tmp_path / "packed-out") == shards(tmp_path / "text-out")


def test_parts_of_a_preparation_unpack_it_once(tmp_path, texts):
    (tmp_path / "a.jsonl").write_bytes(texts["jsonl"])
    (tmp_path / "a.jsonl.gz").write_bytes(PACKERS["gz"](texts["jsonl"]))
    prepare(tmp_path / "a.jsonl", tmp_path / "text", workers=1, **SETTINGS)
    flat.plan(tmp_path / "a.jsonl.gz", tmp_path / "out", **SETTINGS)

    while not jobs.status(tmp_path / "out").complete:
        for number in range(2):
            jobs.work(tmp_path / "out", JobPart(number, 2))
    assert [stage.name for stage in jobs.status(tmp_path / "out").stages][:2] == ["unpack", "lines"]
    jobs.finish(tmp_path / "out")

    assert shards(tmp_path / "out") == shards(tmp_path / "text")


def test_what_a_killed_run_had_unpacked_is_not_trusted(tmp_path, texts):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(PACKERS["gz"](texts["txt"]))
    prepare(path, tmp_path / "alone", workers=1, **SETTINGS)
    plan = flat.plan(path, tmp_path / "out", **SETTINGS)
    folder = plan.workspace.path("unpacked", "")
    folder.mkdir()
    (folder / "0.text").write_bytes(bytes(10_000_000))
    ends = range(100_000, 100_001 + len(plan.units))
    (folder / "0.ends").write_bytes(b"".join(end.to_bytes(8, "little") for end in ends))

    prepare(path, tmp_path / "out", workers=2, **SETTINGS)

    assert hashes_of_files(tmp_path / "out") == hashes_of_files(tmp_path / "alone")


def test_a_run_that_is_killed_while_it_unpacks_resumes(tmp_path, texts):
    path, out = tmp_path / "a.jsonl.gz", tmp_path / "out"
    path.write_bytes(PACKERS["gz"](texts["jsonl"]))
    prepare(path, tmp_path / "alone", workers=1, **SETTINGS)
    arguments = {"inputs": path, "out_dir": out, "workers": 2, **SETTINGS}

    with start(arguments) as process:
        wait_until(process, out, ".preparation/unpacked/0.ends", 1)
        process.kill()
    prepare(**arguments)

    assert hashes_of_files(out) == hashes_of_files(tmp_path / "alone")


def test_a_damaged_file_is_an_error_at_the_place(tmp_path, texts):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(PACKERS["gz"](texts["txt"])[:-1000])

    for workers in (1, 2):
        with pytest.raises(BadInputError, match=r"a\.txt\.gz is cut short.*after [\d,]+ bytes"):
            prepare(path, tmp_path / "out", workers=workers, **SETTINGS)


def test_bad_lines_have_the_numbers_they_have_in_the_text(tmp_path, texts):
    lines = texts["jsonl"].splitlines(keepends=True)
    lines[600] = b"not JSON\n"
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(PACKERS["gz"](b"".join(lines)))

    with pytest.raises(BadInputError, match="gz:601"):
        prepare(path, tmp_path / "out", workers=2, **SETTINGS)
    summary = prepare(path, tmp_path / "out", workers=2, on_bad_input="skip", **SETTINGS)
    assert "a.jsonl.gz:601" in str(summary.bad_input)


def test_only_files_that_are_a_large_part_are_cut(tmp_path):
    sizes = [100, 100, 10_000, 300]
    kinds = ["gzip", "gzip", "gzip", None]
    sources = [
        Source(f"{n}", f"{n}", size, 0, "text", compression)
        for n, (size, compression) in enumerate(zip(sizes, kinds, strict=True))
    ]
    unpacked = worth_unpacking(sources)

    assert unpacked == [2]
    units = cut_into_units(sources, 4000, unpacked=unpacked)
    assert [(unit.source, unit.start, unit.stop) for unit in units] == [
        (0, 0, 100),
        (1, 0, 100),
        *((2, at, at + 1000) for at in range(0, 10_000, 1000)),
        (3, 0, 300),
    ]
    assert not worth_unpacking(sources[:2] * 16)


@pytest.mark.parametrize(
    ("size", "compression", "expected"),
    [
        (1, None, 8 << 20),
        (320 << 20, None, 20 << 20),
        (64 << 20, "gzip", 16 << 20),
        (1 << 39, None, 32 << 20),
        (10 << 40, None, 640 << 20),
    ],
)
def test_units_are_small_for_little_text_and_large_for_much(size, compression, expected):
    source = Source("a", "a", size, 0, "text", compression)

    assert choose_unit_bytes([source], 32 << 20) == expected
    assert choose_unit_bytes([source], 1000) == 1000
