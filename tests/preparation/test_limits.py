"""Memory and disk: what does not fit is refused before the work begins, with both numbers."""

import contextlib
import csv
import gzip
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from flat import prepare
from preparation import oracle
from preparation.runs import children_of, has_open, run, start
from system_faults import small_disk

from tokenmill.base import progress as progress_module
from tokenmill.base.human import parse_bytes
from tokenmill.base.progress import Lines, Progress
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.limits import (
    enough_for_document,
    fit_into_memory,
    left_for_document,
)
from tokenmill.preparation.pretokenize import pretokenize
from tokenmill.tokens.vocabulary import PROBE

BYTES = {"tokenizer": "bytes", "workers": 1}


def test_too_little_memory_names_the_least():
    with pytest.raises(
        ValueError, match=r'at least (\d+) MiB; pass run=Run\(max_ram="\1M"\)'
    ) as refused:
        fit_into_memory(4, "20M")
    least = str(refused.value).split('max_ram="')[1].split('"')[0]
    assert fit_into_memory(4, least).workers == 1
    with pytest.raises(ValueError):
        fit_into_memory(4, parse_bytes(least) - (1 << 20))


def test_more_memory_never_means_fewer_workers_or_smaller_chunks():
    sizes = [fit_into_memory(64, n << 20) for n in range(430, 64_000, 97)]
    assert [m.workers for m in sizes] == sorted(m.workers for m in sizes)
    assert [m.chunk_bytes for m in sizes] == sorted(m.chunk_bytes for m in sizes)
    assert sizes[-1].workers == 64


@pytest.mark.parametrize("size", ["", "lots", "5 apples", "-3G", "1.2.3"])
def test_sizes_that_are_none(size):
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes(size)


def test_memory_stays_within_the_limit(tmp_path):
    """One line of 40 MB: several times what a chunk holds."""
    text = b"some words, and then more of them " * 30_000
    with open(tmp_path / "line.txt", "wb") as file:
        for _ in range(40):
            file.write(text)
    code = (
        "import tokenmill, sys, pathlib;"
        "run = tokenmill.preparation.Run(max_ram='430M');"
        "tokenmill.prepare('line.txt', 'out', run=run, dedup='none', workers=1);"
        "print(pathlib.Path('/proc/self/status').read_text())"
    )

    # What the kernel counts for a child (ru_maxrss) begins with the memory of its parent.
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(oracle.SOURCE)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    peak = int(done.stdout.split("VmHWM:")[1].split()[0]) << 10
    assert peak < 430 << 20


def peak_of(folder, **arguments):
    """(exit code, what was written to standard error, peak of anonymous memory in all processes)"""
    process = start(arguments, cwd=folder)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(anonymous, descendants(process.pid))))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    return process.returncode, process.communicate()[1], peak


def descendants(process):
    with contextlib.suppress(OSError):
        yield process
        for task in os.listdir(f"/proc/{process}/task"):
            for child in Path(f"/proc/{process}/task/{task}/children").read_text().split():
                yield from descendants(int(child))


def anonymous(process):
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{process}/status").read_text()
        if "RssAnon:" in status:
            return int(status.split("RssAnon:")[1].split()[0]) << 10
    return 0


LIMIT = 440
LARGE = "".join(f"line {n} of some words, and then more of them\n" for n in range(400_000))


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_document_that_does_not_fit_is_refused_with_the_memory_that_is_enough(tmp_path, kind):
    """Of 20 MB; the limit leaves room for 11 MB of JSON lines, and 8 MB of CSV."""
    name = f"large.{kind}"
    with open(tmp_path / name, "w", newline="") as file:
        if kind == "csv":
            csv.writer(file).writerows([["text"], [LARGE]])
        else:
            file.write(json.dumps({"text": LARGE}) + "\n")
    given = {"inputs": name, "dedup": "none", "workers": 2, "out_dir": "out"}

    code, errors, peak = peak_of(tmp_path, **given, max_ram=f"{LIMIT}M")

    assert code == 1
    assert peak < LIMIT << 20
    enough = re.search(
        r"more than [\d,]+ bytes.*\n\nhint: pass run=Run\(max_ram=.(\d+)M.\) or more", errors
    )
    code, errors, peak = peak_of(tmp_path, **given, max_ram=f"{enough[1]}M")
    assert (code, errors) == (0, "")
    assert peak < int(enough[1]) << 20
    assert oracle.accounts_of(tmp_path / "out")["documents_written"] == 1


@pytest.mark.parametrize(
    ("name", "text", "tokenizer", "error"),
    [
        ("zeros.txt.gz", bytes(5), "bytes", "no place to cut"),
        ("letters.jsonl.gz", b"aaaaa", "gpt2", r"more than [\d,]+ bytes.*\n\nhint: .*max_ram"),
        ("words.txt.zst", b"word ", "gpt2", None),
    ],
    ids=["zeros", "letters", "words"],
)
def test_a_decompression_bomb_costs_time_and_no_memory(tmp_path, name, text, tokenizer, error):
    """More than there is memory for, or a part of it that makes its point, from a small file."""
    zstd = pytest.importorskip("backports.zstd")
    compress, times = (zstd.compress, 16) if name.endswith(".zst") else (gzip.compress, 64)
    first = b'{"text": "' if "jsonl" in name else b""
    (tmp_path / name).write_bytes(compress(first) + compress(text * (13 << 17)) * times)
    assert (tmp_path / name).stat().st_size < 2 << 20
    given = {"inputs": name, "out_dir": "out", "tokenizer": tokenizer, "dedup": "none"}

    code, errors, peak = peak_of(tmp_path, **given, workers=1, max_ram="430M")

    assert peak < 430 << 20
    if error is None:
        assert (code, errors) == (0, "")
    else:
        assert code == 1
        assert name in errors
        assert re.search(error, errors)


def test_what_is_too_large_does_not_depend_on_the_workers(tmp_path):
    rows = [{"text": "word " * n} for n in (10, 3_000_000, 20, 2_000_000)]
    for number in range(3):
        path = tmp_path / f"{number}.jsonl"
        path.write_text("".join(json.dumps({"text": f"{number}" + r["text"]}) + "\n" for r in rows))
    given = {"max_ram": "440M", "on_bad_input": "skip", "tokenizer": "bytes", "val_fraction": 0}
    for workers in (1, 3):
        prepare(sorted(tmp_path.glob("*.jsonl")), tmp_path / str(workers), workers=workers, **given)
    assert oracle.hashes_of_files(tmp_path / "1") == oracle.hashes_of_files(tmp_path / "3")
    assert oracle.accounts_of(tmp_path / "1")["dropped"] == {"too large": 3}


def test_more_memory_never_means_smaller_documents():
    sizes = [left_for_document(n << 20) for n in range(430, 64_000, 97)]
    assert sizes == sorted(sizes)
    for size in sizes:
        assert left_for_document(enough_for_document(size)) >= size


def test_with_memory_for_one_large_document_at_a_time_several_workers_hold_one(tmp_path):
    text = json.dumps({"text": LARGE}) + "\n"
    for number in range(4):
        (tmp_path / f"{number}.jsonl").write_text(text)
    code, errors, peak = peak_of(
        tmp_path, inputs=["0.jsonl", "1.jsonl", "2.jsonl", "3.jsonl"], out_dir="out",
        dedup="none", workers=3, max_ram="1300M", tokenizer="bytes",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    assert peak < 1300 << 20


def test_a_disk_that_is_too_small(tmp_path):
    (tmp_path / "a.txt").write_text("some text\n" * 20_000)
    with small_disk(tmp_path / "disk", 400_000) as disk:
        out = disk.path / "out"
        with pytest.raises(PrepareError) as refused:
            prepare(tmp_path / "a.txt", out, **BYTES, dedup="none")
        found = re.search(r"([\d,]+) bytes free, but about ([\d,]+) are needed", str(refused.value))
        free, needed = (int(number.replace(",", "")) for number in found.groups())
        assert 380_000 < free < 400_000
        assert 790_000 < needed < 800_000  # 200,000 tokens of 2 bytes, twice, less the lock
        assert not out.exists()

        disk.resize(2_000_000)
        prepare(tmp_path / "a.txt", out, **BYTES, dedup="none")


@pytest.mark.parametrize(
    ("name", "row", "count", "room"),
    [
        ("short.jsonl", '{"text": "ab"}\n', 30_000, 900_000),  # most of it is what lists documents
        ("names.txt", "Kowalczyk Szczepanik Grzegorz Brzeczyszczykiewicz\n", 20_000, 1_500_000),
    ],
)
def test_a_disk_that_holds_less_than_a_sample_of_the_text_says(tmp_path, name, row, count, room):
    """Six bytes of text per token, as of the plainest English, would fit."""
    (tmp_path / name).write_text(row * count)
    settings = {"workers": 1, "val_fraction": 0}
    with small_disk(tmp_path / "disk", room) as disk:
        out = disk.path / "out"
        assert len(row) * count / 6 * 4 < room
        with pytest.raises(PrepareError, match="are needed while"):
            prepare(tmp_path / name, out, **settings)
        assert not out.exists()

        disk.resize(4_000_000)
        prepare(tmp_path / name, out, **settings)


def test_a_wide_array_needs_more_room(tmp_path):
    with small_disk(tmp_path / "disk", 3_000_000) as disk:
        text = disk.path / "a.txt"
        text.write_text("some text\n" * 50_000)
        with pytest.raises(PrepareError, match="are needed while"):
            pretokenize(text, tokenizer="bytes", dtype="int64")
        pretokenize(text, tokenizer="bytes")
        assert sorted(os.listdir(disk.path)) == ["a.npy", "a.tokenizer_state.json", "a.txt"]


def test_a_worker_that_dies_names_the_file(tmp_path):
    """Whoever reads one of the texts is killed, as the kernel does where memory runs out."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in "ac":
        (folder / f"{name}.txt").write_text(f"text of {name}\n")
    deadly = folder / "b.txt.gz"  # small, but a while to read
    deadly.write_bytes(gzip.compress(b"text of b, many times\n" * 1_000_000, 1))
    arguments = {"inputs": folder, "out_dir": tmp_path / "out", "tokenizer": "bytes", "workers": 2}

    process = start(arguments)
    killed = set()
    while process.poll() is None:
        for worker in children_of(process.pid) - killed:
            if has_open(worker, deadly):
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
    errors = process.communicate()[1]

    assert process.returncode == 1
    assert len(killed) == 3
    assert re.search(r"died 3 times \(signal SIGKILL\) .*, reading b\.txt\.gz from 0 to", errors)
    assert "the same command resumes" in errors
    assert run(arguments) == (0, "")


def test_a_failing_library_names_the_file_too(tmp_path):
    """A tokenizer that knows the words of our probe and no others: its package gives up."""
    tokenizers = pytest.importorskip("tokenizers")
    split = tokenizers.pre_tokenizers.Whitespace()
    words = {word for word, _ in split.pre_tokenize_str(PROBE.decode())}
    vocabulary = {word: number for number, word in enumerate(sorted(words))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary))
    tokenizer.pre_tokenizer = split
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.txt").write_text("unheard-of\n")

    with pytest.raises(
        PrepareError, match=r"a\.txt: tokenizers cannot.*: WordLevel error"
    ) as failed:
        prepare(
            tmp_path / "a.txt", tmp_path / "out", tokenizer=str(tmp_path / "tokenizer.json"),
            workers=1,
        )  # fmt: skip
    assert failed.value.source == "a.txt"


def test_progress_in_lines(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("some text\n" * 500)
    monkeypatch.setattr(progress_module, "SECONDS_BETWEEN_LINES", -1)
    monkeypatch.setattr(progress_module, "SECONDS_FOR_A_RATE", 0)
    shown = io.StringIO()
    prepare(
        tmp_path / "a.txt", tmp_path / "out", **BYTES, unit_bytes=1000, progress=Lines(shown),
        long_line=20,
    )  # fmt: skip
    lines = shown.getvalue().splitlines()
    assert any("encode" in line and "tokens" in line and "B/s" in line for line in lines)
    assert any("assemble" in line and "1 of 2" in line for line in lines)


def test_files_say_nothing_of_this_machine(tmp_path):
    (tmp_path / "a.txt").write_text("some text\n")
    prepare(tmp_path / "a.txt", tmp_path / "out", **BYTES)
    for name in ("dataset_metadata.json", "README.md", "tokenizer_state.json"):
        text = (tmp_path / "out" / name).read_text()
        assert str(tmp_path) not in text
        assert os.uname().nodename not in text


class Watching(Progress):
    """Keeps what is said, and how many processes were there while texts were encoded."""

    def __init__(self):
        self.said = []
        self.others = children_of(os.getpid())
        self.processes = 0

    def write(self, line):
        self.said.append(line)

    def follow(self, what, results, **total):
        for result in results:
            if what == "encode":
                self.processes = max(self.processes, len(children_of(os.getpid()) - self.others))
            yield result


@pytest.mark.parametrize(
    ("name", "max_ram"), [("a.jsonl.gz", "1G"), ("a.jsonl", "600M"), ("a.txt", "500M")]
)
def test_fewer_workers_than_asked_for_are_said_with_the_memory_for_all(tmp_path, name, max_ram):
    """A row of a compressed file may be of any size: memory for it is kept."""
    numbers = random.Random(0)
    rows = b"".join(
        b'{"text": "%s"}\n' % numbers.randbytes(200).hex().encode() for _ in range(2000)
    )
    path = tmp_path / name
    path.write_bytes(gzip.compress(rows) if name.endswith("gz") else rows)
    settings = {"tokenizer": "bytes", "workers": 2, "unit_bytes": 100_000}

    few = Watching()
    prepare(path, tmp_path / "few", max_ram=max_ram, progress=few, **settings)
    (said,) = [line for line in few.said if "workers" in line]
    assert said.startswith("1 of 2 workers will run: ")
    assert few.processes == 0  # the work is done in this one

    enough = re.search(r'run=Run\(max_ram="(\d+M)"\) to run all', said)[1]
    both = Watching()
    prepare(path, tmp_path / "both", max_ram=enough, progress=both, **settings)
    assert not [line for line in both.said if "workers" in line]
    assert both.processes == 2
    assert oracle.hashes_of_files(tmp_path / "few") == oracle.hashes_of_files(tmp_path / "both")
