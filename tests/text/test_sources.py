"""Files, folders and globs become one ordered list of sources, whose kinds are found by content."""

import bz2
import gzip
import lzma
import os

import pytest

from tokenmill.errors import BadInputError, PrepareError
from tokenmill.text.inputs.sources import find_sources, search
from tokenmill.text.inputs.units import cut_into_units


def fill(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def names(inputs):
    return [source.name for source in find_sources(inputs)]


def test_a_folder_gives_its_known_files_to_the_bottom_in_byte_order(tmp_path):
    fill(
        tmp_path,
        {
            "b.txt": b"1",
            "a/z.md": b"2",
            "a/B.py": b"3",
            "Z.jsonl": b"",
            "c.csv": b"",
            "a.txt.gz": gzip.compress(b"", mtime=0),
        },
    )
    fill(tmp_path, {"photo.jpg": b"4", ".hidden.txt": b"5", ".git/x.txt": b"6"})

    sources, passed_over = search([str(tmp_path)])

    assert [s.name for s in sources] == [
        "Z.jsonl",
        "a.txt.gz",
        "a/B.py",
        "a/z.md",
        "b.txt",
        "c.csv",
    ]
    skipped = [os.path.relpath(path, tmp_path) for path in passed_over]
    assert skipped == [".git", ".hidden.txt", "photo.jpg"]


def test_files_folders_and_globs_mix_and_named_files_are_always_taken(tmp_path):
    fill(
        tmp_path, {"one/a.txt": b"", "two/b.dat": b"", "three/x/c.jsonl": b"", "three/d.weird": b""}
    )

    inputs = [
        tmp_path / "one",
        str(tmp_path / "two" / "b.dat"),
        str(tmp_path / "three" / "**" / "*"),
    ]

    assert names(inputs) == ["one/a.txt", "three/d.weird", "three/x/c.jsonl", "two/b.dat"]


def test_names_are_relative_and_do_not_depend_on_the_spelling(tmp_path, monkeypatch):
    fill(tmp_path, {"corpus/a.txt": b"", "corpus/b.txt": b""})
    monkeypatch.chdir(tmp_path / "corpus")

    assert names(["a.txt"]) == ["a.txt"]
    assert names([str(tmp_path / "corpus" / "a.txt"), "../corpus/b.txt"]) == ["a.txt", "b.txt"]
    assert names("../corpus/*.txt") == names(tmp_path) == ["a.txt", "b.txt"]


def test_names_that_are_not_plain_are_encoded_and_stay_apart(tmp_path):
    raw = os.fsencode(tmp_path)
    for name in (
        b"with space.txt",
        b"new\nline.txt",
        b"no\xffutf8.txt",
        b"%FF.txt",
        "\u00e9.txt".encode(),
    ):
        with open(os.path.join(raw, name), "wb") as file:
            file.write(b"text")

    found = find_sources(tmp_path)

    assert [s.name for s in found] == [
        "%25FF.txt", "new%0Aline.txt", "no%FFutf8.txt", "with space.txt", "\u00e9.txt",
    ]  # fmt: skip
    assert all(s.size == 4 for s in found)


@pytest.mark.parametrize(
    ("name", "data", "kind", "compression"),
    [
        ("a.txt", b"text", "text", None),
        ("a.txt", gzip.compress(b"text", mtime=0), "text", "gzip"),
        ("a.jsonl.xz", lzma.compress(b"{}"), "jsonl", "xz"),
        ("a.CSV.bz2", bz2.compress(b"text\n"), "csv", "bzip2"),
        ("a.bz2", bz2.compress(b""), "text", "bzip2"),
        ("dump", b'\n {"text": "a"}\n{"text": "b"}\n', "jsonl", None),
        ("dump.gz", gzip.compress(b'{"text": "a"}\n', mtime=0), "jsonl", "gzip"),
        ("dump", b"{not json}\n", "text", None),
        ("dump", b'{"text": "' + b"x" * 100_000 + b'"}', "jsonl", None),
        ("a.json", b'{"text": "a"}\n{"text": "b"}\n', "jsonl", None),
        ("a.json", b"", "jsonl", None),
        ("BZh.txt", b"BZh9 is a strange beginning", "text", None),
        ("a.txt", b"PAR1 is one too", "text", None),
    ],
)  # fmt: skip
def test_content_says_what_a_file_is_then_its_name(tmp_path, name, data, kind, compression):
    fill(tmp_path, {name: data})

    [source] = find_sources(tmp_path / name)

    assert (source.kind, source.compression) == (kind, compression)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt.gz", b"plain", "is named .gz, but its first bytes are not those of gzip"),
        ("a.txt.zst", b"", "is named .zst, but it is empty"),
        ("a.parquet", b"PAR1 cut", "is named .parquet, but is cut short or not parquet"),
        ("a.parquet.gz", gzip.compress(b"text", mtime=0), "with gzip. is cut short or not parquet"),
        ("a.json", b'[\n{"text": "a"}]', "is not JSON lines"),
    ],
)
def test_a_name_that_promises_what_the_bytes_do_not_hold_is_refused(tmp_path, name, data, message):
    fill(tmp_path, {name: data})

    with pytest.raises(BadInputError, match=message):
        find_sources(tmp_path / name)


def test_what_is_not_there_is_named_with_what_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(tmp_path, {f"corpus/{n}.jsonl": b"" for n in range(12)})
    fill(tmp_path, {"corpus/README.md": b"", "other/photo.jpg": b""})

    with pytest.raises(
        PrepareError, match=r"no file matches 'corpus/\*.jsnl' \(looked in /"
    ) as bad:
        find_sources("corpus/*.jsnl")
    assert bad.value.hint.startswith("the folder corpus/ holds 12 .jsonl files, 1 .md file; a text")
    with pytest.raises(PrepareError, match=r"no such file: 'corpus/a\.jsonl'"):
        find_sources("corpus/a.jsonl")
    with pytest.raises(PrepareError, match="no file of a known kind in the folder other") as bad:
        find_sources("other")
    assert "1 .jpg file" in str(bad.value)
    with pytest.raises(PrepareError, match="no input was given"):
        find_sources([])


def test_the_same_file_twice_is_refused(tmp_path):
    fill(tmp_path, {"a.txt": b"1", "sub/b.txt": b"2"})

    with pytest.raises(PrepareError, match=r"a\.txt is given twice"):
        find_sources([tmp_path, tmp_path / "a.txt"])
    (tmp_path / "sub" / "link.txt").symlink_to(tmp_path / "a.txt")
    with pytest.raises(PrepareError, match="is given twice"):
        find_sources(tmp_path)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PrepareError, match=r"cannot read .*gone\.txt: No such file"):
        find_sources(tmp_path / "gone.txt")

    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(PrepareError, match="not a regular file"):
        find_sources(tmp_path / "pipe.txt")


def test_units_are_ranges_of_bytes_that_cover_every_source(tmp_path):
    fill(
        tmp_path,
        {
            "a.txt": b"x" * 250,
            "b.jsonl": b"y" * 100,
            "c.csv": b"z" * 500,
            "d.txt": b"",
            "e.txt": gzip.compress(b"q" * 999, mtime=0),
        },
    )
    sources = find_sources(tmp_path)

    units = cut_into_units(sources, 100)

    ranges = [(unit.source, unit.start, unit.stop) for unit in units]
    assert ranges == [
        (0, 0, 100), (0, 100, 200), (0, 200, 250), (1, 0, 100), (2, 0, 500), (3, 0, 0),
        (4, 0, sources[4].size),
    ]  # fmt: skip
