"""Columns through every door of torch: masked labels, weights, and losses that know them."""

import itertools

import numpy as np
import pytest
import torch
from column_data import axis_of, make_documents, write
from torch.nn import functional
from train_runs import TINY

from tokenmill import BatchLoader, Mixture
from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset, loss_per_source
from tokenmill.train import TrainConfig
from tokenmill.train.model import GPT

DOCUMENTS = make_documents(2)
COLUMNS = axis_of(DOCUMENTS)
SHAPE = {"block_size": 24, "seed": 5}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("columns") / "d", DOCUMENTS)


@pytest.mark.parametrize("rows", ["windows", "packed", "documents"])
def test_every_door_leaves_the_same_targets_out(data, rows):
    options = {**SHAPE, "rows": rows}
    core = BatchLoader(data, batch_size=4, **options)
    doors = [
        TorchLoader(data, batch_size=4, **options),
        (batch["labels"] for batch in TokenDataLoader(data, batch_size=4, items="dict", **options)),
    ]
    items = WindowsDataset(data, items="hugging_face", **options)
    for step, (batch, labels) in enumerate(itertools.islice(zip(*doors, strict=False), 5)):
        expected = core.batch(step)
        assert (batch.labels.numpy() == expected.labels).all()
        assert (labels.numpy() == expected.labels).all()
        assert (batch.weights.numpy() == expected.weights).all()
        assert batch.columns.keys() == data.columns.keys()
        assert (batch.columns["likely"].numpy() == expected.columns["likely"]).all()
        for row in range(4):
            item = items[4 * step + row]
            assert (item["labels"][1:].numpy() == expected.labels[row]).all()
            assert (item["input_ids"][:-1].numpy() == expected.inputs[row]).all()
        parts = batch.split(3)
        assert [len(part.columns["kind"]) for part in parts] == [3, 1]
        assert (torch.cat([part.weights for part in parts]) == batch.weights).all()


def test_the_loss_of_each_source_weighs_its_targets(data, tmp_path):
    plain = write(tmp_path / "text", DOCUMENTS, names=("ids",))
    weighed = write(tmp_path / "chat", DOCUMENTS, names=("ids", "loss", "weights"))
    mixture = Mixture({"text": plain, "chat": weighed}, weights={"text": 1, "chat": 1})
    batch = next(TorchLoader(mixture, batch_size=16, **SHAPE))
    losses = torch.rand(batch.targets.shape)

    sums, counts = loss_per_source(losses, batch, 2)

    for source in (0, 1):
        expected, total = 0.0, 0.0
        for row in np.flatnonzero(batch.sources.numpy() == source).tolist():
            for column in range(SHAPE["block_size"]):
                if batch.labels[row, column] != -100:
                    expected += float(losses[row, column]) * float(batch.weights[row, column])
                    total += float(batch.weights[row, column])
        assert float(sums[source]) == pytest.approx(expected, rel=1e-5)
        assert float(counts[source]) == pytest.approx(total, rel=1e-6)
    assert batch.num_targets == pytest.approx(float(counts.sum()), rel=1e-6)


@pytest.mark.parametrize("rows", ["windows", "packed"])
def test_our_model_counts_what_a_plain_loop_over_the_tokens_counts(data, rows):
    torch.manual_seed(0)
    config = TrainConfig(**{k: v for k, v in TINY.items() if k != "tokenizer"}, input_file="a.txt")
    model = GPT(config, 257)
    batch = next(TorchLoader(data, batch_size=6, rows=rows, **SHAPE))

    found = (
        model(batch.inputs, batch.targets, loss_mask=batch.loss_mask, weights=batch.weights)
        / batch.num_targets
    )

    spans = BatchLoader(data, batch_size=6, rows=rows, **SHAPE).batch(0).spans
    logits = model(batch.inputs).detach()
    total, weight = 0.0, 0.0
    tables = (spans.row, spans.column, spans.start, spans.length)
    for row, column, start, length in zip(*(t.tolist() for t in tables), strict=True):
        for at in range(1, length):  # nothing predicts the first token of a document or window
            place = start + at
            if COLUMNS["loss"][place]:
                target = torch.tensor(int(COLUMNS["ids"][place]))
                loss = functional.cross_entropy(logits[row, column + at - 1], target)
                total += float(loss) * COLUMNS["weights"][place]
                weight += COLUMNS["weights"][place]
    assert float(found) == pytest.approx(total / weight, rel=1e-4)
