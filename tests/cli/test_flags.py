"""Flags are the fields of the dataclasses: none is missing, none is written down twice."""

import dataclasses
import subprocess
import sys
from typing import get_args

import pytest
from click.testing import CliRunner

from tokenmill.cli import tokenmill
from tokenmill.cli.flags import field_words, kind_of
from tokenmill.cli.prepare import run_command
from tokenmill.cli.prepare_jobs import plan
from tokenmill.cli.train import FLAGS as TRAIN_FLAGS
from tokenmill.cli.train import run_command as train_command
from tokenmill.hub.remote_files import DEFAULT_NUM_SHARDS
from tokenmill.preparation.planning.settings import Settings
from tokenmill.train.config import TrainConfig

BOTH = [
    (Settings, [run_command, plan]),
    (TrainConfig, [train_command]),
]
# Spelled as users have them in their scripts; a flag in this list never goes away.
KNOWN = {
    "prepare": """input_files out_dir tokenizer tokenization end_of_text token_pattern dtype
        document_is separator text_field clean normalize no_normalize dedup no_dedup dedup_min_chars
        on_bad_input val_fraction tokens_per_shard long_line workers max_ram append overwrite
        break_lock engine ray_address work_dir estimate json quiet""",
    "train": """input_file dataset_dir train_data_path val_data_path tokenizer dtype documents order
        rows skip_steps model_name out_dir config_file resume max_iters seed device block_size
        batch_size global_batch_size micro_batch_size learning_rate eval_interval
        checkpoint_interval mixture weights json quiet""",
    "pretokenize": """tokenizer tokenization token_pattern end_of_text dtype separator force json
        quiet""",
    "convert": """to to_dtype tokens_per_shard add_end_of_text allow_lost_documents overwrite
        format dtype tokenizer end_of_text json quiet""",
    "download": """out shards pattern revision workers deadline force dry_run json quiet""",
    "upload": """private revision message no_sample json quiet""",
    "inspect": """format dtype tokenizer end_of_text json quiet""",
    "show": """split limit ids plain format dtype tokenizer end_of_text json quiet""",
    "show batch": """split limit ids plain rank world_size batch_size block_size seed order phase
        rows begin_token row format dtype tokenizer end_of_text json quiet""",
    "verify": """full subset sample format dtype tokenizer end_of_text json quiet""",
    "view": """port no_browser save run sample format dtype tokenizer end_of_text json quiet""",
    "edits": """reweight skip ban ban_tokens source cap then add weights at note json quiet""",
    "when": """run document text source limit json quiet""",
    "sample": """prompt max_new_tokens temperature top_k seed num_samples device json quiet""",
}


def spellings(command):
    return {
        name.lstrip("-")
        for parameter in command.params
        for name in [*parameter.opts, *parameter.secondary_opts]
        if name.startswith("--")
    }


@pytest.mark.parametrize("name", KNOWN)
def test_no_flag_that_was_there_is_gone(name):
    command = tokenmill
    for word in name.split():
        command = command.get_command(None, word)
    command = getattr(command, "main_command", command)

    assert set(KNOWN[name].split()) <= spellings(command)


@pytest.mark.parametrize(("dataclass", "commands"), BOTH)
def test_kinds_and_choices_are_those_of_the_types(dataclass, commands):
    for field in dataclasses.fields(dataclass):
        kinds = [kind for kind in get_args(field.type) or [field.type] if kind is not type(None)]
        literals = [value for kind in kinds for value in (get_args(kind) or [kind])]
        kind, choices = kind_of(field)
        assert list(choices or [kind]) == literals, field.name


@pytest.mark.parametrize(("dataclass", "commands"), BOTH)
def test_every_field_has_a_flag_with_its_words_and_its_default(dataclass, commands):
    for command in commands:
        flags = {flag.name: flag for flag in command.params if not getattr(flag, "hidden", False)}
        fields = dataclasses.fields(dataclass)
        for field, (text, section) in zip(fields, field_words(dataclass), strict=True):
            if dataclass is TrainConfig and field.name not in {*TRAIN_FLAGS} - {"skip_steps"}:
                continue  # a key of the config file, or hidden
            flag = flags[field.name]
            assert len(text) > 10, f"{field.name} has no docstring"
            assert flag.help.startswith(text)
            assert ("[default: " in flag.help) == (str(field.default) not in ("None", "False"))
            assert flag.section == section != "Options"
            assert flag.default is None  # what was not given is left to the dataclass


def test_train_has_at_most_thirty_flags_and_the_others_are_keys_of_the_config_file():
    """30 with --help, besides three that are hidden; only settings that exist are flags."""
    assert len([flag for flag in train_command.params if not flag.hidden]) + 1 <= 30
    assert set(TRAIN_FLAGS) < {field.name for field in dataclasses.fields(TrainConfig)}


def test_help_shows_sections_values_and_defaults():
    text = CliRunner().invoke(tokenmill, ["prepare", "--help"]).output

    titles = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "Input and output:", "Tokens:", "Shards:", "Chat:", "Cleaning:", "Filters:", "Reading:",
        "Facts of documents:", "Running:", "Options:", "Subcommands:",
    ]  # fmt: skip
    flat = " ".join(text.split())
    assert "--tokens_per_shard N Tokens in each shard; by default more where there would be" in flat
    assert "over 10,000 shards [default: 10,000,000]" in flat
    assert "(`none`, `lines`, `documents`, `near`) [default: none]" in flat
    assert "--clean, --normalize / --no_normalize" in flat


@pytest.mark.parametrize("command", KNOWN)
def test_help_needs_no_large_package(command):
    code = f"""if True:
        import sys
        from tokenmill.cli import tokenmill
        tokenmill.main([*{command!r}.split(), "--help"], standalone_mode=False)
        large = {{"numpy", "torch", "rich", "gigatoken", "ray", "tokenmill.hub"}}
        print(sorted(set(sys.modules) & large))
    """

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout.endswith("[]\n"), done.stdout[-200:] + done.stderr


def test_the_help_of_download_names_the_real_default():
    """It is written down there, because importing the hub takes long."""
    text = CliRunner().invoke(tokenmill, ["download", "--help"]).output

    assert f"[default: {DEFAULT_NUM_SHARDS}]" in text.rsplit("--shards", 1)[1].split("--")[0]
