"""Replay: from the checkpoint before the first step that trained on a document, without it.

The oracle is a run that never had the documents as targets: trained from its first step on data
with end-of-text ids in their place, which were written by hand, with the mask as a column.
"""

import numpy as np
import pytest
from forgetting.conftest import END, SECRETS, is_secret, prepare, write_texts
from train_runs import TINY

import tokenmill
from tokenmill.forgetting import forget
from tokenmill.train import checkpoint, train

STEPS = 24
UNUSED = 255  # in no text
SETTINGS = {
    **TINY,
    "max_iters": STEPS,
    "checkpoint_interval": 4,
    "keep_checkpoints": 100,
    "eval_interval": 0,
    "block_size": 32,
    "global_batch_size": 4,
    "dropout": 0.1,
}


def weights(folder):
    """All tensors of the model of the last checkpoint, as bytes."""
    tensors = checkpoint.load(checkpoint.existing_latest(folder)).model
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def settings_in(folder, name, data, **more):
    where = {"dataset_dir": str(folder / data), "out_dir": str(folder), "model_name": name}
    return {**SETTINGS, **where, **more}


def write_by_hand(data, folder):
    """The same documents in the same order, the secret ones as end-of-text ids without loss."""
    documents = []
    for number, row in enumerate(data.facts(["k"]).to_pylist()):
        ids = data.document(number).astype(np.int64)[:-1]
        ids[:] = UNUSED if is_secret(row) else ids
        loss = np.full(len(ids), not is_secret(row))
        documents.append({"ids": ids, "loss": loss})  # the end has the loss of the id before it
    tokenmill.write_tokens(documents, folder, tokenizer="bytes")
    for path in (folder / "train").glob("*.bin"):
        ids = np.fromfile(path, "<u2")
        ids[ids == UNUSED] = END  # which no writer of ours would do
        ids.tofile(path)


def seed_and_steps(data, by_hand, rows):
    """A seed with which the documents come late enough, and the steps whose labels they change."""
    other = tokenmill.open(by_hand)
    how = {"batch_size": 4, "block_size": 32, "rows": rows}
    for seed in range(50):
        loaders = [tokenmill.BatchLoader(each, seed=seed, **how) for each in (data, other)]
        pairs = zip(*(loader.batches(0) for loader in loaders), strict=False)
        steps = [
            n
            for n, (a, b) in zip(range(STEPS), pairs, strict=False)
            if not np.array_equal(a.labels, b.labels)
        ]
        if steps and steps[0] >= 5:
            return seed, steps
    raise AssertionError("no such seed")


@pytest.mark.parametrize("rows", ["windows", "packed"])
def test_a_replayed_run_has_the_weights_of_one_that_never_saw_the_documents(tmp_path, rows):
    write_texts(tmp_path)
    prepare(tmp_path, val_fraction=0)
    data = tokenmill.open(tmp_path / "data")
    write_by_hand(data, tmp_path / "by_hand")
    seed, steps = seed_and_steps(data, tmp_path / "by_hand", rows)
    how = {"rows": rows, "seed": seed}
    train(settings_in(tmp_path, "run", "data", **how), quiet=True)
    learned = weights(tmp_path / "run")

    done = forget(tmp_path / "data", where=SECRETS, runs=[str(tmp_path / "run")])

    (about,) = done["runs"]
    assert about["steps"] == steps
    assert about["replay_from"] == f"step_{steps[0] // 4 * 4:08d}"
    later = [n for n in range(4, STEPS + 1, 4) if n > steps[0]]
    assert about["checkpoints"] == [f"step_{n:08d}" for n in later]
    (tmp_path / "run" / "checkpoints" / "latest").write_text(about["replay_from"] + "\n")
    train(settings_in(tmp_path, "run", "data", **how), resume=True, quiet=True)
    for name, other in (("never", "by_hand"), ("again", "data")):
        train(settings_in(tmp_path, name, other, **how), quiet=True)
        assert weights(tmp_path / "run") == weights(tmp_path / name)
    assert weights(tmp_path / "run") != learned
