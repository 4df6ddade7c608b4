"""Real text that is always at hand, and small tokenizers with their oracles."""

import json
import pydoc_data.topics
import sysconfig
from pathlib import Path

import pytest
from preparation import oracle

SMALL_RANKS = 1000


@pytest.fixture(scope="session")
def gpt2():
    """encode(text) -> ids of tiktoken on the bundled ranks."""
    return oracle.tiktoken_of(oracle.RANK_FILE, 50256).encode_ordinary


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A rank file of the first thousand merges: quick to load, split as gpt2 splits."""
    path = tmp_path_factory.mktemp("small") / "small.tiktoken"
    path.write_bytes(b"\n".join(oracle.RANK_FILE.read_bytes().splitlines()[:SMALL_RANKS]))
    settings = {"tokenizer": str(path), "token_pattern": "gpt2", "end_of_text": str(SMALL_RANKS)}
    return settings, oracle.tiktoken_of(path, SMALL_RANKS).encode_ordinary


@pytest.fixture(scope="session")
def english():
    """Pages of Python's own manual."""
    topics = pydoc_data.topics.topics
    return [topics[name] for name in sorted(topics)]


@pytest.fixture(scope="session")
def code():
    """Files of Python's own standard library."""
    folder = Path(sysconfig.get_path("stdlib"))
    return [path.read_text("utf-8") for path in sorted(folder.glob("*.py"))[:60]]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, english, code):
    """A folder with a text file, JSON lines and repeated lines: about 150 KB."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "big.txt").write_text("\n\n".join(english[:12]), "utf-8")
    rows = [{"text": text[:3000]} for text in (*code[:15], *english[12:20], *code[:5])]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder
