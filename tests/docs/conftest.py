"""What the pages take for granted: small files under the names that they use."""

import base64
import json
import pydoc_data.topics
import shutil
from pathlib import Path

import numpy as np
import orjson
import pytest
import tokenizers

import tokenmill
from tokenmill.tokens.load_tokenizer import load

ROOT = Path(__file__).parents[2]
TINY = {
    "n_layer": 1, "n_head": 1, "n_embd": 8, "block_size": 16, "batch_size": 2, "max_iters": 2,
    "eval_batches": 1, "eval_interval": 0, "sample_tokens": 4, "device": "cpu", "compile": "off",
}  # fmt: skip


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of somebody who reads our pages; copied before a page is run."""
    folder = tmp_path_factory.mktemp("reader")
    topics = list(pydoc_data.topics.topics.values())
    (folder / "corpus").mkdir()
    for number in range(2):
        texts = [part for topic in topics[number::2] for part in topic.split("\n\n")]
        # More than a megabyte each: smaller files would be one unit together.
        rows = [orjson.dumps({"text": text, "page": 5 * text}) for text in texts]
        (folder / "corpus" / f"{number}.jsonl").write_bytes(b"\n".join(rows))
    for name in ("input.txt", "corpus.txt", "a.txt", "b.txt", "book.txt"):
        (folder / name).write_text("\n".join(topics[:9]))
    (folder / "held").mkdir()
    rows = [orjson.dumps({"text": f"Held out, number {n}."}) for n in range(99)]
    (folder / "held" / "news.jsonl").write_bytes(b"\n".join(rows))
    for name in "ab":
        (folder / "held" / f"{name}.py").write_text(f"{name} = 1\nprint({name})\n")
    (folder / "configs").mkdir()
    for config in (ROOT / "configs").glob("*.json"):
        (folder / "configs" / config.name).write_text(json.dumps(TINY))
    tokenmill.prepare(folder / "corpus", folder / "data" / "corpus", tokenizer="gpt2", workers=1)
    write_token_files(folder, topics)
    write_tokenizers(folder)
    return folder


def write_token_files(folder: Path, topics: list[str]) -> None:
    """Token files of other people: .npy, raw .bin, dolma, llm.c."""
    ids, ends = load("gpt2").encode_batch([topic.encode() for topic in topics])
    tokens = np.insert(ids, ends, 50256).astype("<u2")
    cut = np.flatnonzero(tokens == 50256)[-9] + 1  # the last eight documents are held out
    np.save(folder / "train.npy", tokens[:cut])
    np.save(folder / "val.npy", tokens[cut:])
    for name in ("train.bin", "old.bin", "part-0.npy", "part-1.npy"):
        tokens.tofile(folder / name)
    tokens.astype("<u4").tofile(folder / "u32-tokens.bin")
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(tokens)
    for name in ("edu_fineweb_train_000001.bin", "edu_fineweb_val_000000.bin"):
        (folder / name).write_bytes(header.tobytes() + np.roll(tokens, 1).tobytes())


def write_tokenizers(folder: Path) -> None:
    """Tokenizers of 256 bytes and no merges, as a tokenizer.json and a .tiktoken file."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens(["</s>", "<s>"])
    (folder / "llama").mkdir()
    made.save(str(folder / "llama" / "tokenizer.json"))
    ranks = [f"{base64.b64encode(bytes([byte])).decode()} {byte}" for byte in range(256)]
    (folder / "mine.tiktoken").write_text("\n".join(ranks))


@pytest.fixture
def folder(reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in."""
    place = tmp_path / "reader"
    shutil.copytree(reader, place)
    monkeypatch.chdir(place)
    return place
