"""Mixtures as data of a loader: shares, epochs of the sources, schedules, and refusals."""

import numpy as np
import pytest
from batches.numbered import numbered

import tokenmill
from tokenmill import BatchLoader, Mixture
from tokenmill.dataset import from_array

BLOCK = 4
WEB, CODE = numbered(50 * BLOCK + 1), numbered(11 * BLOCK + 1, first=1000)


def test_steps_that_are_whole_blocks_hold_the_exact_shares():
    mixture = Mixture({"web": WEB, "code": CODE}, weights={"web": 0.75, "code": 0.25})
    loader = BatchLoader(mixture, batch_size=64, block_size=BLOCK)

    for _ in range(20):
        assert np.bincount(next(loader).sources).tolist() == [48, 16]


def test_each_source_runs_through_whole_epochs_of_its_own():
    mixture = Mixture({"web": WEB, "code": CODE}, weights={"web": 2, "code": 1})
    loader = BatchLoader(mixture, batch_size=5, block_size=BLOCK)
    batches = [next(loader) for _ in range(100)]
    sources = np.concatenate([batch.sources for batch in batches])
    starts = np.concatenate([batch.starts for batch in batches])

    for source, count in ((0, 50), (1, 11)):
        mine = starts[sources == source]
        epochs = mine[: len(mine) // count * count].reshape(-1, count)
        assert len(epochs) >= 6
        assert (np.sort(epochs, axis=1) == np.arange(count) * BLOCK).all()


def test_rows_hold_the_tokens_of_their_source():
    mixture = Mixture({"web": WEB, "code": CODE}, weights={"web": 1, "code": 1})
    batch = next(BatchLoader(mixture, batch_size=32, block_size=BLOCK))

    expected = (batch.starts + 1000 * batch.sources)[:, None] + np.arange(BLOCK + 1)

    assert np.array_equal(batch.tokens, expected)


def test_sources_of_equal_length_do_not_share_an_order():
    mixture = Mixture({"a": numbered(401), "b": numbered(401)}, weights={"a": 1, "b": 1})
    loader = BatchLoader(mixture, batch_size=200, block_size=BLOCK)
    batch = next(loader)

    assert batch.starts[batch.sources == 0].tolist() != batch.starts[batch.sources == 1].tolist()


def test_weights_change_at_the_given_steps():
    mixture = Mixture(
        {"web": WEB, "code": CODE},
        schedule=[
            (0, {"web": 1, "code": 0}),
            (3, {"web": 1, "code": 1}),
            (5, {"web": 0, "code": 1}),
        ],
        samples_per_step=64,
    )
    loader = BatchLoader(mixture, batch_size=64, block_size=BLOCK)

    web = [int((next(loader).sources == 0).sum()) for _ in range(7)]

    assert web == [64, 64, 64, 32, 32, 0, 0]


def test_sources_of_different_dtypes_and_documents_are_mixed():
    narrow = from_array(np.tile([1, 2, 9], 50).astype(np.uint16), end_of_text=9)
    wide = from_array(np.tile([7, 100_000], 50).astype(np.uint32), end_of_text=7)
    mixture = Mixture({"a": narrow, "b": wide}, weights={"a": 1, "b": 1})

    batch = next(BatchLoader(mixture, batch_size=16, block_size=BLOCK, documents=True))

    ends = np.where(batch.sources == 0, 9, 7)[:, None]
    assert np.array_equal(batch.loss_mask, batch.inputs != ends)
    assert batch.tokens.max() == 100_000


def test_stats_count_each_source():
    mixture = Mixture({"web": WEB, "code": CODE}, weights={"web": 3, "code": 1})
    loader = BatchLoader(mixture, batch_size=8, block_size=BLOCK, world_size=2, rank=1)
    for _ in range(8):
        next(loader)

    stats = loader.stats()

    assert stats["samples"] == 128
    assert stats["sources"]["web"] == {"samples": 96, "tokens": 384, "epochs": 96 / 50}
    assert stats["sources"]["code"]["epochs"] == 32 / 11
    assert stats["steps_here"] == 8
    assert stats["bytes_read_here"] == 64 * (BLOCK + 1) * 4
    assert stats["seconds_waited"] > 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "either weights= or schedule="),
        ({"weights": {"web": 1}, "schedule": [(0, {"web": 1})]}, "either weights= or schedule="),
        ({"weights": {"wob": 1}}, "a source with a weight is 'wob'; known are: web, code"),
        ({"weights": {"web": 1}}, "no weight is given for 'code'"),
        ({"schedule": [(0, {"web": 1, "code": 0}), (9, {})]}, "no weight is given for 'web'"),
        ({"weights": {"web": 0, "code": 0}}, "one must be more"),
        ({"weights": {"web": 1, "code": float("nan")}}, "each must be a finite number"),
        ({"weights": {"web": -1, "code": 2}}, "none may be negative"),
        ({"schedule": [(5, {"web": 1, "code": 1})]}, r"stages start at \[5\]"),
        ({"schedule": []}, "must start at 0 and rise"),
        ({"schedule": [(t, {"web": 1, "code": 1}) for t in (0, 5, 5)]}, r"\[0, 5, 5\]; they must"),
        ({"schedule": [(t, {"web": 1, "code": 1}) for t in (0, 9, 3)]}, r"\[0, 9, 3\]; they must"),
        ({"weights": {"web": 1}, "samples_per_step": 0}, "samples_per_step is 0"),
    ],
)
def test_mixtures_that_mean_nothing_are_refused(given, says):
    with pytest.raises(ValueError, match=says):
        Mixture({"web": WEB, "code": CODE}, **given)


def test_a_mixture_has_no_epochs_and_no_end_of_its_own():
    mixture = Mixture({"web": WEB, "code": CODE}, weights={"web": 1, "code": 1})

    with pytest.raises(ValueError, match="a mixture has no epochs of its own"):
        BatchLoader(mixture, block_size=BLOCK, epochs=1)
    with pytest.raises(ValueError, match="a mixture has no end"):
        BatchLoader(mixture, block_size=BLOCK).windows()
    assert len(BatchLoader(mixture, block_size=BLOCK).windows(500)) == 500
    with pytest.raises(ValueError, match="at least one dataset"):
        Mixture({}, weights={})


def test_sources_made_with_different_tokenizers_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("some words of text " * 100)
    for name in ("bytes", "gpt2"):
        tokenmill.prepare(
            tmp_path / "a.txt", tmp_path / name, tokenizer=name, workers=1, val_fraction=0
        )
    sources = {name: tokenmill.open(tmp_path / name) for name in ("bytes", "gpt2")}

    with pytest.raises(ValueError, match=r"different tokenizers .*bytes .*gpt2"):
        Mixture(sources, weights={"bytes": 1, "gpt2": 1})
    Mixture({"one": sources["gpt2"], "two": sources["gpt2"]}, weights={"one": 1, "two": 1})
