"""A manifest has a hash of itself: no bit of it changes without being noticed."""

import json
import os

import pytest
import xxhash

import tokenmill
from tokenmill.errors import FormatError
from tokenmill.shards.manifest import Manifest
from tokenmill.shards.verify import verify

NAME = "dataset_metadata.json"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A dataset with settings, accounts and two splits."""
    folder = tmp_path_factory.mktemp("own_hash")
    rows = [{"text": f"Document {i} of a few."} for i in range(40)]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tokenmill.prepare(folder / "a.jsonl", folder / "out", tokenizer="bytes", val_fraction=0.2)
    return folder


def rewrite(folder, change):
    """Change the text of the manifest."""
    path = folder / NAME
    before = path.read_text()
    assert change(before) != before
    path.write_text(change(before))


def test_it_is_made_as_the_specification_says(prepared):
    data = (prepared / "out" / NAME).read_bytes()
    stated = json.loads(data)["xxh3_128"]
    field = f',\n  "xxh3_128": "{stated}"'.encode()

    assert data.count(field) == 1
    assert data.endswith(field + b"\n}\n")
    assert xxhash.xxh3_128_hexdigest(data.replace(field, b"")) == stated


def test_every_flipped_bit_is_noticed(prepared):
    folder = prepared / "out"
    data = (folder / NAME).read_bytes()
    noticed = 0
    descriptor = os.open(folder / NAME, os.O_RDWR)
    try:
        for at, byte in enumerate(data):
            for bit in range(8):
                os.pwrite(descriptor, bytes([byte ^ 1 << bit]), at)
                with pytest.raises(FormatError):
                    verify(folder)
                noticed += 1
            with pytest.raises(FormatError):
                tokenmill.open(folder)
            with pytest.raises(FormatError):
                tokenmill.prepare(prepared / "a.jsonl", folder, append=True)
            os.pwrite(descriptor, bytes([byte]), at)
    finally:
        os.close(descriptor)

    assert noticed == 8 * len(data) > 10_000
    assert verify(folder) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "\n",
        lambda text: text.replace("\n", "\r\n"),
        lambda text: json.dumps(json.loads(text)),
        lambda text: text.replace('"xxh3_128": "', '"xxh3_128": "\\u0030', 1),
        lambda text: text.replace('"accounts": {', '"accounts": {"a": 1, '),
    ],
)
def test_what_a_tool_rewrote_is_refused(prepared, tmp_path, change):
    (tmp_path / NAME).write_bytes((prepared / "out" / NAME).read_bytes())
    rewrite(tmp_path, change)

    with pytest.raises(FormatError):
        Manifest.load(tmp_path)


def test_a_manifest_without_its_hash_is_refused(prepared):
    data = (prepared / "out" / NAME).read_bytes()

    with pytest.raises(FormatError, match="xxh3_128 is missing"):
        Manifest.parse(data[:-53] + b"\n}\n")
