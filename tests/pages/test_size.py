"""10 billion tokens: pages read only what they show.

The files are sparse, so they take no space, but reading them all would be 20 GB. The system counts
what a process reads and the pages that it touches.
"""

import json
import resource
from pathlib import Path

import numpy as np
import pytest
from look.build import EOT, named
from manifests import signed
from pages.conftest import serving

from tokenmill.pages.report import report
from tokenmill.tokens.load_tokenizer import load

TOKENS = 10_000_000_000
SHARDS, DOCUMENTS = 100, 1000  # documents in each shard
LIMIT = 600 << 20  # 3 % of the data, for five pages or a report


def sparse(path, num_bytes: int) -> None:
    with path.open("wb") as file:
        file.truncate(num_bytes)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """A dataset of ours: 100 shards of 100 million zeros, 1,000 documents in each."""
    folder = tmp_path_factory.mktemp("size") / "large"
    (folder / "train").mkdir(parents=True)
    tokenizer = load("gpt2")
    state = json.dumps(tokenizer.state()).encode()
    (folder / "tokenizer_state.json").write_bytes(state)
    size = TOKENS // SHARDS
    ends = np.linspace(0, size, DOCUMENTS + 1).astype("<u8")[1:].tobytes()
    shards = []
    for number in range(SHARDS):
        name = f"train/shard_{number:05d}"
        sparse(folder / f"{name}.bin", 2 * size)
        (folder / f"{name}.ends").write_bytes(ends)
        shard = {"file": f"{name}.bin", "tokens": size, "bytes": 2 * size, "xxh3_128": "0" * 32}
        shards.append(shard | {"ends": named(f"{name}.ends", ends) | {"documents": DOCUMENTS}})
    manifest = {
        "format": "tokenmill",
        "format_version": 1,
        "dtype": "uint16",
        "tokenizer": {
            "name": "gpt2",
            "vocab_size": tokenizer.vocab_size,
            "end_of_text_id": EOT,
            "fingerprint": tokenizer.fingerprint,
            "state": named("tokenizer_state.json", state),
        },
        "tokens_per_shard": size,
        "splits": {"train": {"tokens": TOKENS, "documents": SHARDS * DOCUMENTS, "shards": shards}},
        "sources": [],
        "settings": {},
        "accounts": {},
    }
    (folder / "dataset_metadata.json").write_bytes(signed(manifest))
    return folder


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """One file of 20 GB without an index, its ends of text here and there."""
    path = tmp_path_factory.mktemp("size") / "large.bin"
    sparse(path, 2 * TOKENS)
    with path.open("r+b") as file:
        for place in (99, 149, 4_999_999_999, 5_000_000_499, 5_000_001_999):
            file.seek(2 * place)
            file.write(EOT.to_bytes(2, "little"))
    return path


def touched() -> int:
    """Bytes that this process read so far, and those of pages it touched for the first time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"]) + (used.ru_minflt + used.ru_majflt) * resource.getpagesize()


def test_an_indexed_dataset_is_browsed_without_reading_it(indexed):
    before = touched()

    with serving(indexed) as client:
        assert "100,000" in client.page("/documents?n=99950").text
        assert client.page("/document?n=54321&from=98000").ids == [0] * 2000
        assert len(client.page("/batch?step=12345&world_size=64&rank=63").articles) == 8
        assert "100,000" in client.page("/longest").text
        assert client.ask("/random")[0] == 303
        assert touched() - before < LIMIT
        # A search ends after a second, however far it came by then.
        assert client.page("/search?q=never+to+be+found").rel("next")


def test_a_single_file_without_an_index_too(single):
    before = touched()

    with serving(single, dtype="uint16", end_of_text=EOT, tokenizer="gpt2") as client:
        first = client.page("/documents")
        assert [link for link in first.links if link.startswith("document?at=150")]
        page = client.page("/document?at=5000000100")
        assert page.ids == [0] * 499 + [EOT]
        assert "large.bin, token 5,000,000,000" in page.text
        listed = client.page("/documents?at=5000000600")
        assert "document?at=5000000500" in listed.links
        assert "document?at=5000000000" in client.page("/documents?at=5000000000").links
        assert "or more" in client.page("/document?at=8000000000").text
        assert len(client.page("/batch?step=777&batch_size=4").articles) == 4
        assert "bounded look" in client.page("/shortest").text
        assert client.ask("/random")[0] == 303

    assert touched() - before < LIMIT


def test_a_report_looks_at_a_sample_and_says_so(indexed):
    before = touched()

    page = report(str(indexed), sample=1 << 20)

    assert "From an evenly spaced sample: 1,048,576 of 10,000,000,000 tokens." in page
    assert "10,000,000,000 tokens, 100,000 documents" in page
    assert "fault" in page
    assert touched() - before < LIMIT
