"""Settings: flags over file over defaults, typos named, and a resumed run keeps its course."""

import ast
import dataclasses
import inspect
import json
from itertools import pairwise
from pathlib import Path

import pytest

from tokenmill.errors import SettingsMismatchError
from tokenmill.train import train
from tokenmill.train.config import TrainConfig, check_same_run, load_config, number
from tokenmill.train.model import GPT

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.json"))


def write(path, **values):
    path.write_text(json.dumps(values))
    return str(path)


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path):
    file = write(tmp_path / "c.json", n_layer=3, n_head=2)

    config = load_config(file, {"n_layer": 5, "n_head": None})

    assert (config.n_layer, config.n_head, config.n_embd) == (5, 2, 768)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"n_layers": 3}, "did you mean 'n_layer'"),
        ({"n_layer": "3"}, "n_layer is '3'"),
        ({"n_layer": True}, "n_layer is True"),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"documents": "yes"}, "documents is 'yes'; expected bool or None"),
        ({"batch_size": 4, "global_batch_size": 8}, "batch_size is 4 .* give one of them"),
        (
            {"order": "mixed"},
            "order is 'mixed'; expected shuffle or sequential or",
        ),
        ({"dtype": "float32"}, "dtype is 'float32'; expected uint16"),
        ({"dtype": 16}, "dtype is 16; expected uint16 or .* or None"),
        ({"compile": None}, "compile is None; expected auto or on or off"),
        ({"model_name": "../x"}, "not the name of a folder"),
        ({"grad_clip": -1}, "grad_clip is -1; expected a number of at least 0"),
    ],
)
def test_a_setting_that_cannot_be_is_named(tmp_path, values, words):
    with pytest.raises(ValueError, match=words):
        load_config(write(tmp_path / "c.json", **values), {})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
@pytest.mark.parametrize("name", ["learning_rate", "min_learning_rate", "weight_decay", "beta2"])
def test_a_rate_that_is_no_number_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}; expected a number of at least 0"):
        load_config(None, {name: value})


def test_every_setting_has_a_text_for_the_help_of_its_flag():
    """A string under each field; what it says of the default must not repeat a number."""
    body = ast.parse(inspect.getsource(TrainConfig)).body[0].body
    fields = [node.target.id for node in body if isinstance(node, ast.AnnAssign)]
    described = {
        field.target.id: text.value.value
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }

    assert list(described) == fields
    assert all(text.endswith(".") and "default" not in text for text in described.values())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "none is given"),
        ({"input_file": "a", "dataset_dir": "b"}, "2 are given: input_file, dataset_dir"),
        ({"dataset_dir": "b", "val_data_path": "v"}, "goes with train_data_path"),
        ({"mixture": "a=b", "weights": "a=1", "val_data_path": "v"}, "goes with train_data_path"),
        ({"mixture": "a=b"}, "weights is not given"),
        ({"dataset_dir": "b", "weights": "a=1"}, "mixture is not given"),
        ({"mixture": "a=b,data/c", "weights": "a=1"}, "expected a name and a value"),
        ({"mixture": "a=b,a=c", "weights": "a=1"}, "has 'a' twice"),
        ({"mixture": "a=b", "weights": "a=much"}, "'much' is not a number"),
    ],
)
def test_exactly_one_source_of_data(given, words):
    with pytest.raises(ValueError, match=words):
        _ = TrainConfig(**given).source


@pytest.mark.parametrize("name", ["toy_cpu", "toy_cpu.json", "configs/toy_cpu.json"])
def test_a_config_that_comes_with_tokenmill_has_a_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)

    assert load_config(name, {}).n_embd == 64


def test_a_config_file_of_the_user_wins_over_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy_cpu").write_text('{"n_embd": 24}')

    assert load_config("toy_cpu", {}).n_embd == 24
    for name in ("toy_cup", "elsewhere/toy_cpu.json"):
        with pytest.raises(
            FileNotFoundError, match=rf"no config file {name}.*150M_1024, .*toy_cpu"
        ):
            load_config(name, {})


def test_another_source_replaces_the_saved_one():
    config = load_config(
        None, {"dataset_dir": "d"}, saved={"train_data_path": "t", "val_data_path": "v"}
    )

    assert config.source == "dataset_dir"
    saved = {"mixture": "web=w,code=c", "weights": "web=2,code=1"}
    assert load_config(None, {"dataset_dir": "d"}, saved=saved).weights is None
    moved = load_config(None, {"mixture": "web=x,code=y"}, saved=saved)
    assert (moved.paths_of_mixture, moved.shares_of_mixture) == (
        {"web": "x", "code": "y"},
        {"web": 2, "code": 1},
    )


def test_a_resumed_run_may_not_change_its_course():
    saved = TrainConfig(block_size=64, device="cpu").resolved(1)

    check_same_run(
        saved, load_config(None, {"max_iters": 99, "device": "auto"}, saved=saved.to_json())
    )
    with pytest.raises(SettingsMismatchError, match=r"block_size +64 -> 128"):
        check_same_run(saved, load_config(None, {"block_size": 128}, saved=saved.to_json()))


@pytest.mark.parametrize(
    ("rows", "world_size", "expected"),
    [
        ({}, 1, 32),
        ({}, 4, 128),
        ({"batch_size": 8}, 4, 32),
        ({"global_batch_size": 8}, 4, 8),
    ],
)
def test_rows_are_those_of_one_rank_or_of_all(rows, world_size, expected):
    assert TrainConfig(**rows).resolved(world_size).global_batch_size == expected


def test_rows_of_a_flag_replace_those_of_the_file_and_of_the_saved_run(tmp_path):
    file = write(tmp_path / "c.json", global_batch_size=480)

    config = load_config(file, {"batch_size": 64}, saved={"global_batch_size": 16})

    assert config.resolved(2).global_batch_size == 128
    again = load_config(None, {}, saved=config.resolved(2).to_json())
    assert again.resolved(8).global_batch_size == 128  # on other ranks


def num_parameters(vocab_size, shape):
    """Counted by hand: embedding; per block qkv, projection, MLP and two gains; a last gain."""
    width = shape.n_embd
    return vocab_size * width + shape.n_layer * (12 * width**2 + 2 * width) + width


def test_the_count_of_parameters_is_right():
    shape = TrainConfig(n_layer=3, n_head=2, n_embd=20)

    assert GPT(shape, num_ids=64).num_parameters == num_parameters(64, shape)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_the_configs_of_the_repository_load_and_have_the_size_of_their_name(path):
    config = load_config(str(path), {})
    size = path.stem.partition("M_")[0]
    if size.isdecimal():
        assert num_parameters(50304, config) / 1e6 == pytest.approx(int(size), rel=0.05)
        assert config.block_size == int(path.stem.partition("M_")[2])


def test_train_shows_every_setting_as_a_keyword():
    shown = inspect.signature(train).parameters

    assert set(shown) == {field.name for field in dataclasses.fields(TrainConfig)} | {
        "settings",
        "config_file",
        "resume",
        "quiet",
    }
    assert shown["batch_size"].default == TrainConfig().batch_size


def test_a_mistyped_keyword_of_train_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(TypeError, match=r"train\(\) has no argument 'n_layers'.*'n_layer'"):
        train(dataset_dir=str(tmp_path / "none"), n_layers=3)


def test_keywords_of_train_win_over_its_mapping_and_the_file(tmp_path):
    file = write(tmp_path / "c.json", out_dir=str(tmp_path), model_name="from_file")

    with pytest.raises(FileNotFoundError, match="by_keyword"):
        train({"input_file": "by_mapping"}, config_file=file, input_file="by_keyword")


@pytest.mark.parametrize(("text", "expected"), [("3", 3), ("0.5", 0.5), ("1e3", 1000.0)])
def test_a_whole_number_stays_whole(text, expected):
    assert (number(text), type(number(text))) == (expected, type(expected))
