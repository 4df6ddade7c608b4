"""from_scripts.md has a place for all that other projects' scripts have, and it exists."""

import re
from pathlib import Path

import pytest

import tokenmill.compat
from tokenmill.cli import tokenmill as command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "from_scripts.md").read_text(encoding="utf-8")
FILES = """scripts/prepare_dataset.py pretokenize_dataset.py train.py test_local_data.py
    train_h100_optimized.py experiments.py submit_job.sh data_loading.py core/data_loader.py
    cs336_basics/data/dataloader.py cs336_basics/data/__init__.py experiment_utils.py core.py
    configs/150M_1024.json configs/250M_1024.json docs/LARGE_DATASET_TRAINING.md
    docs/SHARDED_DATASET_IMPLEMENTATION.md load_optimization.md dataset_metadata.json
    tokenizer_state.json owt_train_tokens.npy owt_valid_tokens.npy ./gpt2_tokenizer"""
CLASSES = """TokenizedDataset LocalTokenizedDataset LocalTokenizedDatasetFixed create_dataloaders
    GPTDataLoader StreamingDataset LocalDataModule download_tokenized_data"""
METHODS = "get_batch _get_tokens _get_batch_sharded prepare_data hf_hub_download"
FLAGS = {
    "prepare": "input_files out_dir tokenization tokens_per_shard no_normalize no_dedup",
    "train": """model_name input_file dataset_dir config_file max_iters train_data_path
        val_data_path batch_size""",
}


@pytest.mark.parametrize("name", f"{FILES} {CLASSES} {METHODS}".split())
def test_every_file_and_class_has_a_place(name):
    there = re.findall(r"^\| (.+?) \| .+ \|$", PAGE, re.MULTILINE)

    assert any(name in cell for cell in there)


@pytest.mark.parametrize("program", FLAGS)
def test_every_flag_has_a_place_and_exists(program):
    flags = command.get_command(None, program).main_command.params
    known = {name for flag in flags for name in [*flag.opts, *flag.secondary_opts]}

    for flag in FLAGS[program].split():
        assert f"`--{flag}" in PAGE
        assert f"--{flag}" in known


def test_what_the_page_names_here_exists():
    for name in CLASSES.split():
        assert hasattr(tokenmill.compat, name)
    here = re.findall(r"^\| .+? \| (.+) \|$", PAGE, re.MULTILINE)
    files = re.findall(r"`((?:scripts|configs)/[\w.]+)`", " ".join(here))
    assert len(files) >= 6
    for file in files:
        assert (ROOT / file).exists(), file
