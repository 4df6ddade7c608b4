"""`tokenmill train --fim_rate ...`: trained on augmented rows, validated on plain ones."""

import json

import pytest
from special_tokens import write_tokenizer
from train_runs import TINY, losses, val_losses

import tokenmill
from tokenmill.errors import SettingsMismatchError
from tokenmill.train.config import TrainConfig
from tokenmill.train.start import train


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    tokenizer = str(write_tokenizer(folder / "tokenizer.json"))
    rows = [json.dumps({"text": f"Document {n} says: {n} grains, {n} words."}) for n in range(300)]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    tokenmill.prepare(folder / "rows.jsonl", folder / "data", tokenizer=tokenizer, workers=1)
    return folder / "data"


def settings_of(corpus, tmp_path, name, **more):
    base = {name: value for name, value in TINY.items() if name != "tokenizer"}
    base |= {"max_iters": 6, "eval_interval": 3, "checkpoint_interval": 2, "sample_tokens": 0}
    return {
        **base,
        "dataset_dir": str(corpus),
        "out_dir": str(tmp_path),
        "model_name": name,
        **more,
    }


def test_a_run_on_augmented_rows_resumes_and_validates_on_plain_ones(corpus, tmp_path):
    augment = {"fim_rate": 0.5, "drop_rate": 0.05, "replace_rate": 0.05}
    plain = settings_of(corpus, tmp_path, "plain")
    whole = settings_of(corpus, tmp_path, "whole", **augment)
    parts = settings_of(corpus, tmp_path, "parts", **augment)

    train(plain, quiet=True)
    train(whole, quiet=True)
    train({**parts, "max_iters": 3, "decay_iters": 6}, quiet=True)
    train({**parts, "decay_iters": 6}, resume=True, quiet=True)

    assert val_losses(tmp_path / "plain")[0] == val_losses(tmp_path / "whole")[0]
    assert losses(tmp_path / "plain") != losses(tmp_path / "whole")
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    with pytest.raises(SettingsMismatchError, match=r"fim_rate +0.5 -> 0.9"):
        train({**parts, "fim_rate": 0.9}, resume=True, quiet=True)


def test_sentinels_beyond_the_tokenizer_are_ids_of_a_larger_model(corpus, tmp_path):
    settings = settings_of(
        corpus, tmp_path, "larger", fim_rate=0.5, fim_ids="270,271,272", vocab_size=300, max_iters=1
    )

    assert train(settings, quiet=True).step == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fim_rate": 2.0}, "rate of FillInTheMiddle is 2.0"),
        ({"fim_rate": 0.5, "fim_ids": "1,2"}, "expected three ids"),
        ({"drop_rate": 1.0}, "below 1"),
    ],
)
def test_wrong_rates_are_refused_at_once(given, said):
    with pytest.raises(ValueError, match=said):
        TrainConfig(dataset_dir="d", **given)
