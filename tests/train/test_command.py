"""The commands `tokenmill train`, `train.py` and `tokenmill sample`."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from train_runs import ROOT, TINY, flags, text

from tokenmill.cli import main, tokenmill
from tokenmill.cli import train as train_commands
from tokenmill.train import start


def invoke(*args):
    return CliRunner().invoke(tokenmill, list(args))


@pytest.fixture
def trained(tmp_path):
    (tmp_path / "text.txt").write_text(text(300))
    settings = {**TINY, "max_iters": 3, "out_dir": tmp_path, "model_name": "m"}
    result = invoke("train", "--input_file", str(tmp_path / "text.txt"), *flags(settings))
    assert result.exit_code == 0, result.output
    return tmp_path / "m", result


def test_training_shows_loss_speed_and_waiting(trained):
    _, result = trained

    assert "warning: No .npy file found" in result.stderr
    assert "3 of 3, loss" in result.stderr
    assert "tokens/s, waiting for data" in result.stderr
    assert "val_loss" in result.stderr
    assert "; a step of 256 tokens takes " in result.stderr


def test_sample_writes_to_stdout(trained):
    run_dir, _ = trained

    said = invoke(
        "sample", str(run_dir), "--prompt", "the", "--max_new_tokens", "5", "--device", "cpu"
    )

    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("the")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "none is given\n\nhint: --input_file text.txt, or --dataset_dir"),
        (["--input_file", "a.txt", "--dataset-dir", "d"], "2 are given"),
        (
            ["--input_file", "a.txt", "--max_itres", "2"],
            "no such option '--max_itres'. (Did you mean one of: '--max_iters'",
        ),
        (
            ["--input_file", "a.txt", "--n-layer", "2"],
            "n_layer is a key of the config file, not a flag\n\n"
            'hint: --config_file FILE, which holds {"n_layer": ...}',
        ),
        (["--input_file", "a.txt", "--n_layers", "2"], "there is no n_layers; n_layer is a key of"),
        (["--dataset_dir", "d", "--config_file", "nowhere.json"], "no config file nowhere.json"),
    ],
)
def test_misuse_is_explained_in_words(tmp_path, args, words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", *args, "--out_dir", str(tmp_path)])

    assert stop.value.code in (1, 2)
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_help_comes_without_torch(tmp_path):
    code = (
        "import sys; from tokenmill.cli import main, tokenmill\n"
        "try: tokenmill(['train', '--help'])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "torchrun --nproc_per_node=8 train.py" in done.stdout


MEASURE = """
import sys, torch
torch.set_num_threads(1)
from tokenmill.train import train
for path in sys.argv[1:]:
    train({"train_data_path": path, "dtype": "uint16", "out_dir": path + "-run", "n_layer": 1,
           "n_head": 2, "n_embd": 32, "block_size": 64, "batch_size": 16, "max_iters": 12,
           "eval_interval": 6, "eval_batches": 2, "vocab_size": 256, "device": "cpu",
           "documents": False}, quiet=True)
    status = open("/proc/self/status").read()
    print(status.partition("RssAnon:")[2].split()[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_own_memory_does_not_grow_with_the_data(tmp_path):
    """10 billion tokens (a sparse file) take what 10 million take, within 50 MB."""
    paths = []
    for num_tokens in (10**7, 10**10):
        paths.append(tmp_path / f"{num_tokens}.bin")
        with paths[-1].open("wb") as file:
            file.truncate(2 * num_tokens)

    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, paths)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    small, large = (int(kilobytes) / 1024 for kilobytes in done.stdout.split())
    assert large - small < 50


def test_flags_of_other_scripts_are_taken_with_a_note(trained, tmp_path):
    settings = {**TINY, "max_iters": 1, "out_dir": tmp_path, "model_name": "w", "vocab_size": 300}
    more = ("--num_workers", "8", "--prefetch-factor=4")

    result = invoke("train", "--input_file", str(tmp_path / "text.txt"), *flags(settings), *more)

    assert result.exit_code == 0, result.output
    assert "num_workers and prefetch_factor are not needed: one thread reads" in result.stderr
    assert "300 ids of bytes" in result.stderr
    assert "--num_workers" not in invoke("train", "--help").output


def test_sample_has_the_defaults_of_the_function():
    function = inspect.signature(start.sample).parameters
    flags = {option.name: option.default for option in train_commands.sample.params}

    shared = flags.keys() & function.keys() - {"run", "prompt"}
    assert {name: flags[name] for name in shared} == {
        name: function[name].default for name in shared
    }
    assert {"max_new_tokens", "temperature", "top_k", "seed"} <= shared
