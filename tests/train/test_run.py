"""A whole run: it learns, whichever way its tokens are stored, and leaves what it promises."""

import importlib.util
import json
import os
import re

import numpy as np
import pytest
import torch
from flat import prepare
from train_runs import ROOT, TINY, losses, text, val_losses

from tokenmill.compat.text_file import encode_text
from tokenmill.dataset import open as open_tokens
from tokenmill.errors import (
    LockedError,
    MismatchError,
    MissingExtraError,
    TokenizerMismatchError,
    TokenmillError,
)
from tokenmill.preparation.pretokenize import pretokenize
from tokenmill.tokens.load_tokenizer import load
from tokenmill.train import TrainConfig, sample, train
from tokenmill.train.config import load_config
from tokenmill.train.run_data import open_data


@pytest.fixture
def corpus(tmp_path):
    """text.txt, and the same tokens as .npy and .bin elsewhere."""
    (tmp_path / "text.txt").write_text(text())
    ids = encode_text(text(), load("bytes"))
    (tmp_path / "files").mkdir()
    np.save(tmp_path / "files" / "tokens.npy", ids)
    ids.tofile(tmp_path / "files" / "tokens.bin")
    kept = len(ids) * 9 // 10
    (tmp_path / "files" / "shards").mkdir()
    for i, part in enumerate([*np.array_split(ids[:kept], 3), ids[kept:]]):
        np.save(tmp_path / "files" / "shards" / f"part_{i}.npy", part)
    np.save(tmp_path / "files" / "first.npy", ids[:kept].astype(np.int32))
    np.save(tmp_path / "files" / "rest.npy", ids[kept:].astype(np.int64))
    return tmp_path


def run(corpus, name, **settings):
    return train(
        {**TINY, "out_dir": str(corpus / "runs"), "model_name": name, **settings}, quiet=True
    )


def test_equal_tokens_give_equal_losses_however_they_are_stored(corpus):
    files = corpus / "files"
    memory = run(corpus, "memory", max_iters=20, input_file=str(corpus / "text.txt"))
    others = {
        "npy": {"train_data_path": str(files / "tokens.npy")},
        "bin": {"train_data_path": str(files / "tokens.bin"), "dtype": "uint16"},
        "two": {
            "train_data_path": str(files / "first.npy"),
            "val_data_path": str(files / "rest.npy"),
        },
        "shards": {"dataset_dir": str(files / "shards")},
    }
    pretokenize(corpus / "text.txt", tokenizer="bytes")
    others["beside"] = {"input_file": str(corpus / "text.txt")}

    for name, source in others.items():
        result = run(corpus, name, max_iters=20, **source)

        assert losses(result.run_dir) == losses(memory.run_dir), name
        assert val_losses(result.run_dir) == val_losses(memory.run_dir), name
    assert len(losses(memory.run_dir)) == 20


def test_every_validation_set_is_evaluated_and_reported(corpus, capsys):
    """Each has the loss that it has as the only one, on the tokens of its shard."""
    (corpus / "other.txt").write_text(text(300)[::-1])
    (corpus / "late.txt").write_text(text(1800).partition("\n1500: ")[2])
    held_out = {"late": corpus / "late.txt", "other": corpus / "other.txt"}
    data = corpus / "data"
    for name, fraction in (("data", 0.1), ("named_only", 0.0)):
        prepare(
            corpus / "text.txt",
            corpus / name,
            val_input=held_out,
            val_fraction=fraction,
            document_is="line",
            tokenizer="bytes",
            workers=1,
        )
    names = ["val", "val_late", "val_other"]
    result = run(corpus, "all", max_iters=20, dataset_dir=str(data))

    rows = [json.loads(line) for line in (result.run_dir / "metrics.jsonl").open()]
    found = {name: [row[f"{name}_loss"] for row in rows if "val_loss" in row] for name in names}
    for name in names:
        shards = {
            f"{kind}_data_path": str(next((data / split).glob("*.bin")))
            for kind, split in (("train", "train"), ("val", name))
        }
        alone = run(corpus, f"alone_{name}", max_iters=20, dtype="uint16", **shards)
        assert [loss for _, loss in val_losses(alone.run_dir)] == found[name]
    assert result.val_losses == {name: found[name][-1] for name in names}
    assert result.val_loss == result.val_losses["val"]
    assert set(json.loads((result.run_dir / "data.json").read_text())) == {"train", *names}
    picture = (result.run_dir / "loss.svg").read_text()
    assert f">val_late {found['val_late'][-1]:.3f}<" in picture
    page = (result.run_dir / "run.html").read_text()
    assert f"</i>val_late</td><td>{found['val_late'][-1]:.4f}</td>" in page

    only = train(
        {**TINY, "out_dir": str(corpus / "runs"), "model_name": "only", "max_iters": 1},
        dataset_dir=str(corpus / "named_only"),
    )
    assert only.val_loss is None
    assert sorted(only.val_losses) == ["val_late", "val_other"]
    shown = capsys.readouterr().err
    late = f"val_late_loss {only.val_losses['val_late']:.4f}, "
    assert re.search(re.escape(late) + r"val_late_bits_per_byte \d\.\d{4}, val_other", shown)
    assert "tokens of val_late" in shown or "of val_late and" in shown


def test_a_prepared_dataset_gives_the_losses_of_its_tokens_in_one_file(corpus):
    """One window in twelve crosses the edge of a shard, one in six the end of a document."""
    lines = text().splitlines()
    rows = [json.dumps({"text": "\n".join(lines[i : i + 5])}) for i in range(0, len(lines), 5)]
    (corpus / "rows.jsonl").write_text("\n".join(rows))
    out, files = corpus / "prepared", corpus / "files"
    prepare(
        corpus / "rows.jsonl", out, tokenizer="bytes", tokens_per_shard=401, val_fraction=0.1,
        workers=1,
    )  # fmt: skip
    for split, least in (("train", 100), ("val", 10)):
        shards = sorted((out / split).glob("*.bin"))
        assert len(shards) > least
        ids = np.concatenate([np.fromfile(shard, "<u2") for shard in shards])
        assert np.count_nonzero(ids == 256) > least  # documents, by their end-of-text id
        np.save(files / f"prepared_{split}.npy", ids)
        ids.tofile(files / f"prepared_{split}.bin")
    dataset = run(corpus, "dataset", max_iters=20, dataset_dir=str(out))

    for kind in ("npy", "bin"):
        result = run(
            corpus, f"one_{kind}", max_iters=20, dtype="uint16" if kind == "bin" else None,
            train_data_path=str(files / f"prepared_train.{kind}"),
            val_data_path=str(files / f"prepared_val.{kind}"),
        )  # fmt: skip

        assert losses(result.run_dir) == losses(dataset.run_dir), kind
        assert val_losses(result.run_dir) == val_losses(dataset.run_dir), kind
    assert len(losses(dataset.run_dir)) == 20
    assert [step for step, _ in val_losses(dataset.run_dir)] == [0, 20]


def test_the_validation_loss_falls_below_60_percent(corpus):
    result = run(
        corpus, "learns", train_data_path=str(corpus / "files" / "tokens.npy"), max_iters=120
    )

    curve = val_losses(result.run_dir)
    assert curve[0][0] == 0
    assert curve[-1] == (120, result.val_loss)
    assert result.val_loss < 0.6 * curve[0][1]


def test_a_run_leaves_its_settings_its_curve_and_its_data(corpus):
    result = run(corpus, "files", train_data_path=str(corpus / "files" / "tokens.npy"), max_iters=5)

    about = json.loads((result.run_dir / "data.json").read_text())
    config = json.loads((result.run_dir / "config.json").read_text())
    with_split = open_tokens(corpus / "files" / "tokens.npy", "train")
    assert about["train"]["fingerprint"] == with_split.fingerprint
    assert (config["n_embd"], config["decay_iters"]) == (32, 5)
    assert (result.run_dir / "loss.svg").read_text().startswith("<svg")
    row = json.loads((result.run_dir / "metrics.jsonl").read_text().splitlines()[-2])
    assert {"loss", "tokens", "tokens_per_second", "data_wait", "learning_rate"} <= set(row)
    assert row["tokens"] == 5 * 8 * 32


def test_a_trained_model_writes_text(corpus):
    result = run(corpus, "talks", train_data_path=str(corpus / "files" / "tokens.npy"))

    said = sample(result.run_dir, "7: the mill", max_new_tokens=20, seed=1, device="cpu")

    assert said.startswith("7: the mill")
    assert said == sample(result.run_dir, "7: the mill", max_new_tokens=20, seed=1, device="cpu")


def test_micro_batches_are_the_same_step(corpus):
    source = {"train_data_path": str(corpus / "files" / "tokens.npy"), "max_iters": 8}
    whole = run(corpus, "whole", **source)
    parts = run(corpus, "parts", micro_batch_size=3, **source)

    for (_, a), (_, b) in zip(losses(whole.run_dir), losses(parts.run_dir), strict=True):
        assert a == pytest.approx(b, rel=1e-4)


def test_dropout_repeats_with_the_seed_and_not_otherwise(corpus):
    source = {"train_data_path": str(corpus / "files" / "tokens.npy"), "max_iters": 4}
    runs = [run(corpus, f"d{i}", dropout=0.2, seed=s, **source) for i, s in enumerate((1, 1, 2))]

    first, again, other = (losses(r.run_dir) for r in runs)
    assert first == again
    assert first != other


def test_the_first_token_of_a_document_is_not_asked_for(tmp_path):
    """Documents (r, r + 100, end) with r drawn at random: only r cannot be learned."""
    first = np.random.default_rng(0).integers(0, 20, 3000)
    ids = np.stack([first, first + 100, np.full(3000, 256)], axis=1).astype(np.uint16)
    np.save(tmp_path / "x.npy", ids.reshape(-1))
    settings = {**TINY, "out_dir": str(tmp_path), "train_data_path": str(tmp_path / "x.npy")}

    within = train({**settings, "model_name": "in", "max_iters": 50}, quiet=True)
    across = train(
        {**settings, "model_name": "off", "documents": False, "max_iters": 50}, quiet=True
    )

    assert within.val_loss < 0.3
    assert across.val_loss > 0.9 * np.log(20) / 3  # a third of the targets are r


def test_an_id_beyond_the_vocabulary_ends_the_run_with_its_place(tmp_path):
    np.save(tmp_path / "x.npy", np.full(4000, 300, np.uint16))

    with pytest.raises(TokenmillError, match=r"x\.npy holds the id 300, .* \(its token \d+"):
        train(
            {**TINY, "out_dir": str(tmp_path), "train_data_path": str(tmp_path / "x.npy")},
            quiet=True,
        )


def test_a_loss_that_is_not_a_number_stops_and_names_its_windows(corpus):
    with pytest.raises(TokenmillError, match=r"loss of step \d+ is (nan|inf)"):
        run(
            corpus,
            "nan",
            train_data_path=str(corpus / "files" / "tokens.npy"),
            learning_rate=1e14,
            grad_clip=0.0,
        )
    rows = [json.loads(r) for r in (corpus / "runs/nan/metrics.jsonl").read_text().splitlines()]
    assert "tokens.npy from token" in rows[-1]["windows"][0]
    assert not (corpus / "runs/nan/checkpoints").exists()


def weights_of(run_dir):
    for folder in sorted((run_dir / "checkpoints").glob("step_*")):
        yield folder.name, torch.load(folder / "model.pt", weights_only=True).values()


def test_gradients_that_are_not_finite_never_reach_a_checkpoint(corpus):
    """At this learning rate they overflow in step 3, whose loss is finite."""
    source = {"train_data_path": str(corpus / "files" / "tokens.npy"), "learning_rate": 1e6}
    often = {"warmup_iters": 0, "checkpoint_interval": 1, "keep_checkpoints": 9, "eval_interval": 0}
    with pytest.raises(TokenmillError, match="norm of the gradients of step 3 is") as stopped:
        run(corpus, "inf", **source, **often)

    saved = dict(weights_of(corpus / "runs" / "inf"))
    assert list(saved) == ["step_00000001", "step_00000002"]
    assert all(tensor.isfinite().all() for tensors in saved.values() for tensor in tensors)
    assert (corpus / "runs/inf/checkpoints/latest").read_text() == "step_00000002\n"
    assert 'resume=True with skip_steps="2" continues without them' in stopped.value.hint
    rows = [json.loads(r) for r in (corpus / "runs/inf/metrics.jsonl").read_text().splitlines()]
    assert "norm of the gradients" in rows[-1]["event"]
    # The advice, taken: what was skipped before is skipped again.
    again = {"out_dir": str(corpus / "runs"), "model_name": "inf", "skip_steps": "2"}
    with pytest.raises(TokenmillError, match=r"step 3 is") as stopped:
        train(again, resume=True, quiet=True)
    assert 'skip_steps="2,3"' in stopped.value.hint
    assert "a lower learning_rate=" in stopped.value.hint


def test_weights_that_are_not_finite_are_not_saved(corpus):
    source = {"train_data_path": str(corpus / "files" / "tokens.npy"), "max_iters": 1}
    with pytest.raises(TokenmillError, match="weights after step 1 give no finite loss"):
        run(
            corpus,
            "w",
            **source,
            warmup_iters=0,
            beta1=0.0,
            learning_rate=3.39e38,
            weight_decay=1.0,
        )

    assert not (corpus / "runs/w/checkpoints").exists()


def test_a_skipped_step_of_the_data_is_not_trained_on(corpus):
    """Steps 0 1 2 3 4 without 1 and 2 are 0 3 4: the first loss is the same, the next is not."""
    source = {"train_data_path": str(corpus / "files" / "tokens.npy"), "learning_rate": 1e-9}
    whole = run(corpus, "whole", max_iters=5, **source)
    fewer = run(corpus, "fewer", max_iters=3, skip_steps="1-2", **source)

    # At this learning rate the weights hardly move, so a loss identifies its batch.
    kept = [losses(whole.run_dir)[i][1] for i in (0, 3, 4)]
    assert [loss for _, loss in losses(fewer.run_dir)] == pytest.approx(kept, abs=1e-5)
    state = json.loads((fewer.run_dir / "checkpoints/step_00000003/state.json").read_text())
    assert state["loader"]["samples"] == 5 * 8


def test_wandb_that_is_not_installed_is_named_before_data_is_read_or_a_model_built(corpus):
    if importlib.util.find_spec("wandb"):
        pytest.skip("wandb is installed")
    with pytest.raises(MissingExtraError, match=r"(?s)wandb=True needs .*tokenmill\[wandb\]"):
        run(corpus, "w", train_data_path=str(corpus / "files" / "not there.npy"), wandb=True)


def test_a_second_run_of_one_name_is_refused(corpus):
    source = {"train_data_path": str(corpus / "files" / "tokens.npy"), "max_iters": 2}
    run(corpus, "twice", **source)

    with pytest.raises(LockedError, match="holds a run already"):
        run(corpus, "twice", **source)


def test_too_little_held_out_data_is_named(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(200, np.uint16))

    with pytest.raises(TokenmillError, match=r"validation split val has 20 tokens.*needs 33"):
        train(
            {**TINY, "out_dir": str(tmp_path), "train_data_path": str(tmp_path / "x.npy")},
            quiet=True,
        )


def test_a_stale_npy_beside_the_text_is_refused(corpus):
    np.save(corpus / "text.npy", encode_text("other text", load("bytes")))
    os.utime(corpus / "text.npy", ns=(0, 0))

    with pytest.raises(MismatchError, match=r"text\.npy was made from another text than "):
        run(corpus, "stale", input_file=str(corpus / "text.txt"))


@pytest.mark.parametrize("tokenizer", ["bytes", "chars"])
def test_a_npy_beside_the_text_is_read_with_the_tokenizer_that_made_it(corpus, tokenizer):
    pretokenize(corpus / "text.txt", tokenizer=tokenizer)
    source = {"input_file": str(corpus / "text.txt"), "max_iters": 2}

    own = run(corpus, "own", tokenizer=None, **source)
    named = run(corpus, "named", tokenizer=tokenizer, **source)

    state = json.loads((own.run_dir / "tokenizer_state.json").read_text())
    assert state["kind"] == tokenizer
    assert losses(own.run_dir) == losses(named.run_dir)
    with pytest.raises(TokenizerMismatchError, match=r"text\.npy was made with a tokenizer of"):
        run(corpus, "other", tokenizer="gpt2", **source)


def test_a_text_is_trained_on_by_its_characters(corpus):
    source = {"input_file": str(corpus / "text.txt"), "max_iters": 2, "tokenizer": "chars"}

    result = run(corpus, "chars", **source)
    again = train(
        {**TINY, **source, "out_dir": str(corpus / "runs"), "model_name": "chars", "max_iters": 3},
        resume=True,
        quiet=True,
    )

    state = json.loads((result.run_dir / "tokenizer_state.json").read_text())
    assert state["characters"] == "".join(sorted(set(text())))
    assert again.step == 3
    assert sample(result.run_dir, "7: the", device="cpu").startswith("7: the")


def test_a_larger_vocabulary_keeps_the_tokenizer_and_its_padding_is_never_drawn(corpus):
    (corpus / "lines.txt").write_text(text(300))
    prepare(corpus / "lines.txt", corpus / "data", tokenizer="bytes", workers=1, val_fraction=0.2)
    source = {"dataset_dir": str(corpus / "data"), "tokenizer": None, "vocab_size": 1024}

    result = run(corpus, "padded", max_iters=1, sample_tokens=200, **source)

    # Three of four ids are padding: of 200 that are drawn at random, some would be.
    assert "bytes" in (result.run_dir / "tokenizer_state.json").read_text()
    assert sample(result.run_dir, "the", max_new_tokens=200, device="cpu").startswith("the")
    rows = (json.loads(r) for r in (result.run_dir / "metrics.jsonl").read_text().splitlines())
    assert all("val_bits_per_byte" in row for row in rows if "val_loss" in row)


def test_a_dataset_of_characters_may_be_named_so(corpus):
    (corpus / "lines.txt").write_text(text(300))
    prepare(corpus / "lines.txt", corpus / "data", tokenizer="chars", workers=1, val_fraction=0.2)
    config = TrainConfig(dataset_dir=str(corpus / "data"), tokenizer="chars", block_size=32)

    assert open_data(config, lambda words: None).tokenizer.characters == "".join(
        sorted(set(text(300)))
    )


def test_training_and_validation_by_different_tokenizers_are_refused(corpus):
    for name, tokenizer in (("a", "bytes"), ("b", "chars")):
        (corpus / f"{name}.txt").write_text(text(200))
        pretokenize(corpus / f"{name}.txt", tokenizer=tokenizer)
    files = {"train_data_path": str(corpus / "a.npy"), "val_data_path": str(corpus / "b.npy")}

    with pytest.raises(
        TokenizerMismatchError, match="different tokenizers: train bytes, val chars"
    ):
        run(corpus, "two", tokenizer=None, **files)


@pytest.mark.parametrize(
    ("size", "tokenizer"), [(50_304, "gpt2"), (50_257, "gpt2"), (50_432, None)]
)
def test_ids_without_a_name_are_those_of_gpt2_if_the_vocabulary_is(corpus, size, tokenizer):
    config = TrainConfig(train_data_path=str(corpus / "files" / "tokens.npy"), vocab_size=size)

    data = open_data(config, lambda words: None)

    assert getattr(data.tokenizer, "name", None) == tokenizer
    assert data.vocab_size == size


def test_the_settings_for_one_h100_pad_the_vocabulary_and_keep_the_tokenizer(corpus):
    path = {"train_data_path": str(corpus / "files" / "tokens.npy"), "block_size": 64}

    data = open_data(load_config(str(ROOT / "configs" / "h100.json"), path), lambda words: None)

    assert (data.vocab_size, data.tokenizer.name) == (50_304, "gpt2")


def test_tensorboard_gets_the_numbers_when_asked(corpus):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = run(
        corpus, "board", train_data_path=str(corpus / "files" / "tokens.npy"), max_iters=3,
        tensorboard=True,
    )  # fmt: skip

    events = EventAccumulator(str(result.run_dir / "tensorboard"))
    events.Reload()
    read = [(e.step, e.value) for e in events.Scalars("loss")]
    assert read == [(s, pytest.approx(v, rel=1e-6)) for s, v in losses(result.run_dir)]


@pytest.mark.parametrize("documents", [None, False])
def test_packed_rows_train_and_resume_with_the_next_row(corpus, documents):
    """A document a line, a begin token before each; stopped at step 6, on to 12."""
    texts = corpus / "lines.txt"
    texts.write_text("\n\n".join(text(200).splitlines()))
    prepare(texts, corpus / "data", tokenizer="bytes", workers=1, val_fraction=0.2)
    settings = {
        "dataset_dir": str(corpus / "data"),
        "rows": "packed",
        "begin_token": 255,
        "documents": documents,
        "decay_iters": 12,
    }

    whole = run(corpus, "whole", max_iters=12, **settings)
    run(corpus, "stopped", max_iters=6, **settings)
    resumed = train(
        {**TINY, "out_dir": str(corpus / "runs"), "model_name": "stopped", "max_iters": 12}
        | settings,
        resume=True,
        quiet=True,
    )

    assert losses(resumed.run_dir)[-1] == losses(whole.run_dir)[-1]
    assert val_losses(whole.run_dir)[-1][1] < val_losses(whole.run_dir)[0][1]
    with pytest.raises(TokenmillError, match=r"rows +packed -> windows"):
        train(
            {**TINY, "out_dir": str(corpus / "runs"), "model_name": "stopped", "rows": "windows"},
            resume=True,
            quiet=True,
        )
