"""`tokenmill train`: train a small GPT on token data."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def _setting(name: str, kind: Any, help_text: str) -> Callable[[Command], Command]:
    return click.option(f"--{name.replace('_', '-')}", type=kind, default=None, help=help_text)


@click.command(short_help="Train a small GPT on token data")
# What to train on
@_setting("input_file", str, "A text file; the .npy beside it is used when there is one")
@_setting("dataset_dir", str, "A dataset: shards in any format `tokenmill.open` reads")
@_setting("train_data_path", str, "Token files to train on: .npy, .bin, a folder, a glob")
@_setting("val_data_path", str, "Token files to validate on  [default: the last tenth held out]")
@_setting("tokenizer", str, "For data that does not name its own  [default: gpt2]")
@_setting("dtype", click.Choice(["uint16", "uint32", "int32"]), "Token type of raw .bin files")
@_setting(
    "documents",
    click.Choice(["auto", "on", "off"]),
    "Keep attention within documents  [default: auto]",
)
@_setting(
    "order",
    click.Choice(["shuffle", "sequential", "random", "blocks"]),
    "Order of windows  [default: shuffle]",
)
@_setting("skip_steps", str, "Steps of the data to leave out: 120,400-410")
# The run
@_setting("model_name", str, "The run's folder is OUT_DIR/MODEL_NAME  [default: gpt]")
@_setting("out_dir", str, "Where runs are kept  [default: runs]")
@click.option(
    "--config-file", default=None, help="JSON settings, e.g. configs/150M_1024.json; flags win"
)
@click.option("--resume", is_flag=True, help="Go on from the run's last checkpoint, or start it")
@_setting("max_iters", int, "Optimizer steps  [default: 10,000]")
@_setting("seed", int, "Of weights, order and dropout  [default: 1337]")
@_setting("device", str, "`auto`, `cpu`, `cuda`, `cuda:1`, `mps`  [default: auto]")
# The model
@_setting("n_layer", int, "Blocks  [default: 12]")
@_setting("n_head", int, "Attention heads  [default: 12]")
@_setting("n_embd", int, "Width  [default: 768]")
@_setting("block_size", int, "Context in tokens  [default: 1024]")
@_setting("dropout", float, "[default: 0]")
@_setting("vocab_size", int, "Ids the model knows  [default: the tokenizer's]")
# Optimization
@_setting("batch_size", int, "Windows per step over all ranks  [default: 32]")
@_setting(
    "micro_batch_size", int, "Windows per forward pass on a rank  [default: all of its share]"
)
@_setting("learning_rate", float, "Peak  [default: 0.0006]")
@_setting("min_learning_rate", float, "At the end of the cosine  [default: a tenth of the peak]")
@_setting("warmup_iters", int, "[default: 100]")
@_setting("decay_iters", int, "Where the cosine ends  [default: max_iters]")
@_setting("weight_decay", float, "[default: 0.1]")
@_setting("grad_clip", float, "0 for none  [default: 1]")
@_setting("precision", click.Choice(["auto", "bf16", "fp32"]), "[default: auto]")
@_setting(
    "compile",
    click.Choice(["auto", "on", "off"]),
    "torch.compile; `auto`: on a GPU  [default: auto]",
)
# Watching
@_setting("eval_interval", int, "Steps between validations, 0 for none  [default: 250]")
@_setting("eval_batches", int, "Fixed batches to validate on  [default: 20]")
@_setting("eval_batch_size", int, "Windows in each  [default: 8]")
@_setting("checkpoint_interval", int, "Steps between checkpoints  [default: eval_interval]")
@_setting("keep_checkpoints", int, "How many to keep  [default: 2]")
@_setting("log_interval", int, "Steps between lines of metrics.jsonl  [default: 10]")
@_setting("sample_tokens", int, "Text drawn at each validation, 0 for none  [default: 64]")
@click.option("--tensorboard", is_flag=True, default=None, help="Also log to TensorBoard")
@click.option("--wandb", is_flag=True, default=None, help="Also log to Weights & Biases")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only")
def command(config_file: str | None, resume: bool, quiet: bool, **settings: Any) -> None:
    """Train a small GPT on token data.

    Exactly one of --input-file, --dataset-dir and --train-data-path says where the data is. The
    run's folder gets checkpoints, metrics.jsonl, loss.svg, config.json and data.json. SIGTERM and
    Ctrl-C save and stop (exit code 75).

    \b
    Examples:
        tokenmill train --input_file input.txt --config_file configs/toy_cpu.json
        tokenmill train --dataset_dir data/corpus --model_name wiki \\
            --config_file configs/150M_1024.json --max_iters 50000
        tokenmill train --train_data_path train.npy --val_data_path val.npy --batch_size 64
        torchrun --nproc_per_node=8 train.py --dataset_dir data/corpus --resume
    """
    from tokenmill.errors import MissingExtraError

    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("tokenmill train", package="torch", extra="torch") from None
    from tokenmill.train.start import train

    train(settings, config_file=config_file, resume=resume, quiet=quiet)
