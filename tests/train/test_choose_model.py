"""Without a config file a run fits its data, its device and a minute; what is given stays."""

import json
import pydoc_data.topics
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from tokenmill.cli import tokenmill
from tokenmill.dataset import from_array
from tokenmill.train import TrainConfig, sample, train
from tokenmill.train.choose_model import SECONDS, SIZES, choose_model, choose_tokenizer, two_digits
from tokenmill.train.run_data import TrainingData

CPU = torch.device("cpu")


def data_of(num_tokens, *, held_out=None, vocab_size=300):
    def part(count):
        return from_array(np.zeros(count, np.uint16), vocab_size=vocab_size)

    train_part = part(num_tokens)
    val = part(num_tokens // 9 if held_out is None else held_out)
    return TrainingData(train_part, {"train": train_part}, {"val": val}, vocab_size, None, False)


@pytest.fixture
def book(tmp_path):
    """Some 80 kB of English."""
    path = tmp_path / "book.txt"
    path.write_text("\n".join(list(pydoc_data.topics.topics.values())[:12])[:80_000])
    return path


def test_a_cpu_gets_as_many_steps_as_the_time_has_room_for():
    config, words = choose_model(TrainConfig(), data_of(10**6), CPU, {})

    assert (config.n_layer, config.n_embd) == (SIZES[0].n_layer, SIZES[0].n_embd)
    milliseconds = float(words.split(" steps of ")[1].split(" ms")[0])
    room = 1000 * SECONDS["cpu"] / milliseconds
    assert config.max_iters == 200 or 0.85 * room < config.max_iters <= 1.05 * room
    assert config.eval_interval * 4 >= config.max_iters
    assert f"{config.max_iters:,} steps" in words


def test_what_is_given_stays():
    given = {"block_size": 48, "batch_size": 3, "max_iters": 7, "learning_rate": 0.5}

    config, words = choose_model(TrainConfig(**given), data_of(10**6), CPU, given)

    assert {name: getattr(config, name) for name in given} == given
    assert "7 steps" in words
    rows = {"global_batch_size": 6, "max_iters": 7}
    config, _ = choose_model(TrainConfig(**rows), data_of(10**6), CPU, rows)
    assert (config.batch_size, config.global_batch_size) == (None, 6)


def test_little_data_is_not_learned_by_heart():
    config, _ = choose_model(TrainConfig(), data_of(60_000), CPU, {})

    epochs = config.max_iters * config.batch_size * config.block_size / 60_000
    assert epochs <= 40


@pytest.mark.parametrize("held_out", [33, 100, 400])
def test_a_window_fits_into_the_shortest_split(held_out):
    config, _ = choose_model(TrainConfig(), data_of(5000, held_out=held_out), CPU, {"max_iters": 9})

    assert config.block_size < held_out


@pytest.mark.parametrize(
    ("size", "name"),
    [(10, "bpe:512"), (1 << 15, "bpe:1024"), (200_000, "bpe:2048"), (10**6, "bpe:4096")],
)
def test_a_longer_text_teaches_a_larger_vocabulary(tmp_path, size, name):
    path = tmp_path / "book.txt"
    with path.open("wb") as file:
        file.truncate(size)

    assert choose_tokenizer(TrainConfig(input_file=str(path))).tokenizer == name


def test_a_tokenizer_that_is_known_is_not_chosen(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("text")

    given = TrainConfig(input_file=str(path), tokenizer="gpt2")
    assert choose_tokenizer(given) == given
    np.save(tmp_path / "book.npy", np.zeros(9, np.uint16))
    beside = TrainConfig(input_file=str(path))
    assert choose_tokenizer(beside) == beside
    assert choose_tokenizer(TrainConfig(dataset_dir="d")).tokenizer is None


def test_equal_machines_choose_alike():
    assert [two_digits(n) for n in (7, 64.9, 199.5, 1987, 123_456)] == [7, 64, 190, 1900, 120_000]


def test_a_book_becomes_text_without_any_setting(book):
    """The run says what it chose, prints a sample, and can be resumed and sampled."""
    out = str(book.parent / "runs")
    words = ["train", "--input_file", str(book), "--out_dir", out, "--max_iters", "8"]

    done = CliRunner().invoke(tokenmill, [*words, "--device", "cpu"])

    assert done.exit_code == 0, done.output
    assert "No config file: for" in done.stderr
    assert (
        " on cpu chose 4 layers of 128 and windows of 128 tokens, 8 per step. 8 ste" in done.stderr
    )
    assert done.stdout.strip()
    settings = json.loads(Path(out, "gpt", "config.json").read_text())
    assert (settings["tokenizer"], settings["max_iters"]) == ("bpe:1024", 8)
    more = train(input_file=str(book), out_dir=out, max_iters=10, resume=True, quiet=True)
    assert more.step == 10
    assert more.sample
    assert len(sample(more.run_dir, "The ", max_new_tokens=5)) > 4


def test_a_setting_of_the_model_or_a_config_file_is_a_choice_of_its_own(book):
    tiny = {"n_layer": 1, "n_head": 1, "n_embd": 8, "block_size": 8, "batch_size": 2}
    common = {"max_iters": 1, "eval_interval": 0, "device": "cpu", "out_dir": str(book.parent)}

    run = train(tiny, input_file=str(book), **common, model_name="given", quiet=True)

    settings = json.loads((run.run_dir / "config.json").read_text())
    assert (settings["tokenizer"], settings["beta2"]) == (None, TrainConfig.beta2)
