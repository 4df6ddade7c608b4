"""A manifest is untrusted input: each way to be wrong is refused before any file is opened."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from manifests import signed

from tokenmill.base.strict_json import is_plain_name
from tokenmill.errors import FormatError, NotADatasetError, UnsupportedVersionError
from tokenmill.shards.manifest import (
    EndsEntry,
    FileEntry,
    Manifest,
    ShardEntry,
    SourceEntry,
    SplitEntry,
    TokenizerEntry,
    dtype_for,
)

HEX = "0123456789abcdef" * 2

BAD_NAMES = [
    "",
    ".",
    "..",
    "../a",
    "a/../b",
    "a/..",
    "./a",
    "a/./b",
    "/etc/passwd",
    "//host/share",
    "a//b",
    "a/",
    "/",
    "C:/a",
    "C:\\a",
    "a\\b",
    "..\\a",
    "a\x00b",
    "a\nb",
    "a\n",
    "a b",
    " a",
    "~/a",
    "$HOME/a",
    "a;b",
    "a*",
    "file:///etc/passwd",
    "http://host/a",
    "%2e%2e/a",
    "a?b",
    "\u00e9",
    "\uff0e\uff0e/a",
    "a" * 256,
    "a/" * 600 + "a",
    None,
    3,
    ["a"],
]


def shard(number, split="train", tokens=10, documents=2):
    name = f"{split}/shard_{number:05d}"
    ends = EndsEntry(f"{name}.ends", documents, 8 * documents, HEX)
    return ShardEntry(f"{name}.bin", tokens, 2 * tokens, HEX, ends)


def make_manifest():
    return Manifest(
        dtype="uint16",
        tokenizer=TokenizerEntry(
            "gpt2", 50257, 50256, HEX, FileEntry("tokenizer_state.json", 99, HEX)
        ),
        tokens_per_shard=10,
        splits={
            "train": SplitEntry.of((shard(0), shard(1), shard(2, tokens=7, documents=0))),
            "val": SplitEntry.of((shard(3, "val", tokens=5, documents=5),)),
        },
        sources=(SourceEntry("corpus/a b.txt", 123, 7),),
        settings={"clean": True, "dedup": "lines", "separator": None},
        accounts={"documents_in": 9, "dropped": {"empty": 2}},
    )


@pytest.fixture
def tree():
    """Without the hash of the manifest itself: tests/shards/test_own_hash.py is about that."""
    fields = json.loads(make_manifest().to_bytes())
    del fields["xxh3_128"]
    return fields


def parse(tree):
    return Manifest.parse(signed(tree))


def put(tree, path, value):
    """A copy of the tree with one field changed."""
    tree = copy.deepcopy(tree)
    node = tree
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return tree


def test_what_is_written_is_what_is_read(tmp_path):
    manifest = make_manifest()

    manifest.write(tmp_path)

    assert Manifest.load(tmp_path) == manifest
    assert (tmp_path / "dataset_metadata.json").read_bytes() == manifest.to_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["dataset_metadata.json"]


def test_the_bytes_are_canonical():
    data = make_manifest().to_bytes()
    tree = json.loads(data)

    assert data == json.dumps(tree, indent=2, ensure_ascii=False).encode() + b"\n"
    assert list(tree) == [
        "format",
        "format_version",
        "dtype",
        "tokenizer",
        "tokens_per_shard",
        "splits",
        "sources",
        "settings",
        "accounts",
        "xxh3_128",
    ]
    assert Manifest.parse(data).to_bytes() == data


def test_the_sums_are_those_of_the_shards():
    manifest = make_manifest()

    assert (manifest.splits["train"].num_tokens, manifest.splits["train"].num_documents) == (27, 4)
    assert (manifest.splits["val"].num_tokens, manifest.splits["val"].num_documents) == (5, 5)


def test_a_source_with_a_name_that_is_not_utf8_is_written_readably():
    source = SourceEntry(b"caf\xe9.txt".decode("utf-8", "surrogateescape"), 1, 1)

    assert source.name == "caf\\xe9.txt"


@pytest.mark.parametrize(("vocab_size", "dtype"), [(257, "uint16"), (65536, "uint16")])
def test_the_stored_type_is_the_smallest_that_holds_every_id(vocab_size, dtype):
    assert dtype_for(vocab_size) == dtype
    assert dtype_for(65537) == "uint32"


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
@pytest.mark.parametrize(
    "path",
    [
        ("splits", "train", "shards", 0, "file"),
        ("splits", "train", "shards", 0, "ends", "file"),
        ("tokenizer", "state", "file"),
    ],
)
def test_bad_names_are_refused_wherever_they_are(tree, path, name):
    with pytest.raises(FormatError, match="not a plain name inside the dataset"):
        parse(put(tree, path, name))


@pytest.mark.parametrize("name", ["a", "train/shard_00000.bin", "a-b_c.d/e", "..a", "a..b", "..."])
def test_plain_names_are_kept(name):
    assert is_plain_name(name)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "other", "format 'other'"),
        (("format_version",), "1", "format_version is '1'"),
        (("format_version",), 0, "format_version is 0"),
        (("format_version",), True, "format_version is True"),
        (("dtype",), "int32", "dtype is 'int32', not one of uint16, uint32"),
        (("tokens_per_shard",), 0, "tokens_per_shard is 0"),
        (("tokens_per_shard",), 10.0, "tokens_per_shard is 10.0"),
        (("tokens_per_shard",), 2**63, "tokens_per_shard is 9223372036854775808"),
        (
            ("tokens_per_shard",),
            9,
            "shards[0].tokens is 10, not at least 1 and at most",
        ),
        (("tokenizer", "vocab_size"), 65537, "small enough for dtype uint16"),
        (("tokenizer", "end_of_text_id"), 50257, "less than vocab_size 50257"),
        (("tokenizer", "end_of_text_id"), -1, "end_of_text_id is -1"),
        (("tokenizer", "fingerprint"), "0" * 31, "not 32 hex digits"),
        (("tokenizer", "fingerprint"), "0" * 32 + "\n", "not 32 hex digits"),
        (("tokenizer", "name"), "", "name is '', not a text"),
        (("tokenizer",), [], "tokenizer is [], not an object"),
        (("splits",), [], "splits is [], not an object"),
        (("splits", "a/b"), {"tokens": 0, "documents": 0, "shards": []}, "without '/'"),
        (("splits", ".."), {"tokens": 0, "documents": 0, "shards": []}, "not a plain name"),
        (("splits", "train", "tokens"), 28, "splits.train.tokens is 28, not 27, the sum"),
        (("splits", "train", "documents"), 5, "splits.train.documents is 5, not 4, the sum"),
        (("splits", "train", "shards"), {}, "shards is {}, not a list"),
        (("splits", "train", "shards", 1), 7, "shards[1] is 7, not an object"),
        (("splits", "train", "shards", 1, "bytes"), 19, "shards[1].bytes is 19, not 2 x 10"),
        (("splits", "train", "shards", 1, "tokens"), 0, "shards[1].tokens is 0"),
        (("splits", "train", "shards", 1, "tokens"), -1, "shards[1].tokens is -1"),
        (("splits", "train", "shards", 1, "xxh3_128"), HEX.upper(), "not 32 hex digits"),
        (("splits", "train", "shards", 1, "ends", "bytes"), 15, "ends.bytes is 15, not 8 x 2"),
        (("splits", "train", "shards", 1, "ends", "documents"), 11, "is 16, not 8 x 11"),
        (("splits", "val", "shards", 0, "file"), "train/shard_00000.bin", "twice"),
        (("splits", "val", "shards", 0, "file"), "TRAIN/SHARD_00000.bin", "twice"),
        (("splits", "val", "shards", 0, "file"), "dataset_metadata.json", "twice"),
        (("sources", 0, "bytes"), None, "sources[0].bytes is None"),
        (("sources", 0, "path"), "x", "sources[0].path is not a known field"),
        (("settings",), None, "settings is None, not an object"),
        (("settings",), json.loads("[" * 40 + "]" * 40), "not an object"),
        (("settings", "a"), json.loads("[" * 40 + "]" * 40), "not an object of at most 32 levels"),
        (("accounts", "a"), json.loads("[" * 40 + "]" * 40), "not an object of at most 32 levels"),
        (("clock",), 1, "clock is not a known field"),
        (("splits", "train", "shards", 0, "clock"), 1, "shards[0].clock is not a known field"),
        (("splits", "train", "shards", 0, "ends", "x"), 1, "ends.x is not a known field"),
    ],
)
def test_a_wrong_field_is_refused_with_its_place_and_value(tree, path, value, message):
    with pytest.raises(FormatError) as caught:
        parse(put(tree, path, value))

    assert message in str(caught.value)


def test_every_field_is_required(tree):
    def paths(node, path=()):
        if isinstance(node, dict) and path[:1] not in (("settings",), ("accounts",)):
            for key, value in node.items():
                yield (*path, key)
                yield from paths(value, (*path, key))
        elif isinstance(node, list):
            for number, value in enumerate(node):
                yield from paths(value, (*path, number))

    optional = [("tokenizer", "fingerprint"), ("tokenizer", "state")]  # of ids made elsewhere
    found = [path for path in paths(tree) if path not in optional]
    needed = [path for path in found if path[:1] != ("splits",) or len(path) != 2]
    assert len(needed) >= 60
    for path in needed:
        broken = copy.deepcopy(tree)
        node = broken
        for key in path[:-1]:
            node = node[key]
        del node[path[-1]]
        with pytest.raises(FormatError, match="is missing"):
            parse(broken)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not the JSON"),
        (b"{", "not the JSON"),
        (b"[]", "holds a list"),
        (b'{"format": "tokenmill", "format": "tokenmill"}', "'format' comes twice"),
        (b'{"a": {"b": 1, "b": 2}}', "'b' comes twice"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": -Infinity}', "Infinity is not a number"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not the JSON"),
        (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", "format is missing"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not the JSON"),
        (b"\xff\xfe{}", "not the JSON"),
        (b"\xef\xbb\xbf{}", "not the JSON"),
        (b" " * ((256 << 20) + 1), "larger than 256 MB"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_json_that_is_abused_is_refused(data, message):
    with pytest.raises(FormatError, match=message):
        Manifest.parse(data)


def test_a_key_that_comes_twice_is_found_in_one_pass():
    """Compared with each other key, 200,000 would take hours."""
    keys = ", ".join(f'"{number}": 0' for number in range(200_000))

    with pytest.raises(FormatError, match="'199999' comes twice"):
        Manifest.parse(f'{{{keys}, "199999": 1}}'.encode())


def test_a_newer_format_says_to_upgrade(tree):
    with pytest.raises(UnsupportedVersionError, match="version 2; this tokenmill reads 1"):
        parse(put(tree, ("format_version",), 2))


def test_a_newer_format_may_have_other_fields(tree):
    with pytest.raises(UnsupportedVersionError):
        parse({"format": "tokenmill", "format_version": 7, "blocks": []})


@settings(max_examples=200, deadline=None)
@given(position=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_changed_byte_is_refused_or_gives_a_manifest_that_still_adds_up(position, byte):
    """No other exception, whatever the byte."""
    data = bytearray(make_manifest().to_bytes())
    data[position % len(data)] = byte

    try:
        manifest = Manifest.parse(signed(json.loads(data)))
    except (FormatError, ValueError, AttributeError):  # the last two: no JSON, or no object
        return
    for split in manifest.splits.values():
        assert split == SplitEntry.of(split.shards)


class TestNoManifest:
    """What is found where a dataset should be."""

    def test_nothing(self, tmp_path):
        with pytest.raises(NotADatasetError, match="does not exist"):
            Manifest.load(tmp_path / "nothing")

    def test_a_file(self, tmp_path):
        (tmp_path / "file").touch()

        with pytest.raises(NotADatasetError, match="is not a folder"):
            Manifest.load(tmp_path / "file")

    def test_a_folder_of_something_else(self, tmp_path):
        with pytest.raises(NotADatasetError, match=r"has no dataset_metadata\.json") as caught:
            Manifest.load(tmp_path)

        assert "tokenmill prepare" in caught.value.hint

    def test_a_preparation_that_was_stopped(self, tmp_path):
        (tmp_path / ".preparation").mkdir()

        with pytest.raises(NotADatasetError) as caught:
            Manifest.load(tmp_path)

        assert "resumes it" in caught.value.hint
