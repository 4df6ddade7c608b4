"""Equal inputs and settings give equal files, whatever the workers, the units and the memory."""

import json
import pydoc_data.topics

import pytest
from flat import prepare
from preparation.oracle import RANK_FILE, hashes_of_files


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    topics = pydoc_data.topics.topics
    texts = [topics[name] for name in sorted(topics)]
    (folder / "one.txt").write_text("\n\n".join(texts[:20])[:60_000], "utf-8")
    rows = [{"text": text[:900]} for text in (*texts[20:90], *texts[:20])]
    (folder / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ranks = tmp_path_factory.mktemp("ranks") / "small.tiktoken"
    ranks.write_bytes(b"\n".join(RANK_FILE.read_bytes().splitlines()[:1000]))
    tokenizer = {"tokenizer": str(ranks), "token_pattern": "gpt2", "end_of_text": "1000"}
    return {"inputs": folder, "tokens_per_shard": 4000, **tokenizer}


@pytest.mark.parametrize(
    "settings",
    [
        {"dedup": "lines", "long_line": 400},
        {"dedup": "documents", "clean": False, "document_is": "paragraph"},
    ],
)
def test_workers_units_and_memory_do_not_matter(corpus, tmp_path, settings):
    runs = [
        {"workers": 1, "unit_bytes": 64 << 20},
        {"workers": 1, "unit_bytes": 1000},
        {"workers": 2, "unit_bytes": 50_000},
        {"workers": 7, "unit_bytes": 9000},
        {"workers": 1, "max_ram": "600M"},
    ]
    found = []
    for number, run in enumerate(runs):
        prepare(out_dir=tmp_path / str(number), **corpus, **settings, **run)
        found.append(hashes_of_files(tmp_path / str(number)))
    assert all(files == found[0] for files in found)
    assert len(found[0]) > 10
