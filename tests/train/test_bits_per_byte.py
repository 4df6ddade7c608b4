"""Loss in bits per byte: the bytes are those that the tokenizer decodes the targets to."""

import json
import math

import numpy as np
import pytest
from train_runs import TINY, text

import tokenmill
from tokenmill.torch import TorchLoader
from tokenmill.train import train
from tokenmill.train.run_record import TextBytes, bits_per_byte

TEXT = "Zw\u00f6lf M\u00fchlen, \u6c34\u8f66\u78e8\u574a.\n" * 40


@pytest.mark.parametrize("rows", ["windows", "packed"])
def test_the_bytes_of_targets_are_those_of_their_text(rows):
    tokenizer = tokenmill.load_tokenizer("gpt2")
    documents = [tokenizer.encode(TEXT[i:]) for i in range(30)]
    ids = np.concatenate([np.append(ids, tokenizer.end_of_text_id) for ids in documents])
    data = tokenmill.from_array(ids.astype(np.uint16), tokenizer="gpt2", end_of_text=50256)
    loader = TorchLoader(data, batch_size=4, block_size=96, rows=rows)
    batches = [next(loader) for _ in range(3)]

    targets, size = TextBytes(tokenizer, 50257).count(batches)

    counted = [int(i) for batch in batches for i in batch.labels.flatten() if i >= 0]
    text = tokenizer.decode(np.array([i for i in counted if i != tokenizer.end_of_text_id]))
    assert (targets, size) == (len(counted), len(text))
    assert TextBytes(None, 50257).count(batches) == (len(counted), 0)


def test_a_run_reports_them_beside_the_loss(tmp_path):
    """One byte a target: bits per byte are bits per target."""
    np.save(tmp_path / "tokens.npy", np.frombuffer(text().encode(), np.uint8).astype(np.uint16))

    result = train(
        {**TINY, "train_data_path": str(tmp_path / "tokens.npy"), "max_iters": 4},
        out_dir=str(tmp_path),
        quiet=True,
    )

    rows = [json.loads(line) for line in (result.run_dir / "metrics.jsonl").open()]
    found = [(r["val_bits_per_byte"], r["val_loss"]) for r in rows if "val_loss" in r]
    found += [(r["bits_per_byte"], r["loss"]) for r in rows if "loss" in r]
    assert len(found) == 6
    assert all(bits == pytest.approx(loss / math.log(2)) for bits, loss in found)


def test_where_no_tokenizer_is_known_there_are_none():
    assert bits_per_byte(math.log(2), 10, 40) == pytest.approx(0.25)
    assert bits_per_byte(1.0, 10, 0) is None
