"""`tokenmill train` and `sample`: train a small GPT on token data, and generate text with it."""

import os
import re
import shlex
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click

from tokenmill.base.suggest import closest
from tokenmill.cli import flags
from tokenmill.cli.flags import switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand, as_flags, is_quiet, note
from tokenmill.errors import MissingExtraError
from tokenmill.train.config import SOURCES, TrainConfig, load_config

# The settings that change from one command to the next; the others are keys of the config file.
FLAGS = (
    *SOURCES, "weights", "where", "val_data_path", "tokenizer", "dtype", "documents", "order",
    "rows", "skip_steps", "model_name", "out_dir", "max_iters", "seed", "device", "block_size",
    "vocab_size", "batch_size", "global_batch_size", "micro_batch_size", "learning_rate",
    "eval_interval", "checkpoint_interval",
)  # fmt: skip
RUN = {"section": "The run"}
JOB = Path(__file__).with_name("submit_job.sh")  # also found as scripts/submit_job.sh


class TrainCommand(flags.SectionedCommand):
    """A command that knows which settings are keys of the config file and not flags."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as misuse:
            name = misuse.option_name.lstrip("-")
            close = closest(name, [field.name for field in fields(TrainConfig)])
            if close is None or close in FLAGS:
                raise
            known = f"{name} is" if name == close else f"there is no {name}; {close} is"
            raise ValueError(
                f"{known} a key of the config file, not a flag\n\n"
                f'hint: --config_file FILE, which holds {{"{close}": ...}}'
            ) from None


@click.command(cls=TrainCommand)
@flags.settings_flags(TrainConfig, only=FLAGS, hidden=("skip_steps",))  # an error shows it
@value("--config_file", "FILE", "JSON settings, or a name such as 150M_1024; flags win", **RUN)
@switch("--resume", "Continue from the last checkpoint of the run, or start it", **RUN)
@value("--num_workers", "N", "As in other scripts; not used", type=flags.position, hidden=True)
@value("--prefetch_factor", "N", "As in other scripts; not used", type=flags.position, hidden=True)
def run_command(config_file: str | None, resume: bool, **settings: Any) -> Outcome:
    """Train a small GPT on token data.

    Without --config_file a small model is chosen that fits the data and the device.
    Exactly one of --input_file, --dataset_dir, --train_data_path and --mixture says where the data
    is. All other settings, such as n_layer, are keys of the config file: training.md. The
    run's folder gets checkpoints, metrics.jsonl, run.html, loss.svg, config.json and data.json.
    SIGTERM and Ctrl-C save and stop (exit code 75).

    \b
    Examples:
        tokenmill train --input_file book.txt
        tokenmill train --input_file input.txt --config_file toy_cpu
        tokenmill train --dataset_dir data/corpus --model_name wiki \\
            --config_file configs/150M_1024.json --max_iters 50000
        tokenmill train --train_data_path train.npy --val_data_path val.npy --batch_size 64
        tokenmill train --mixture web=data/web,code=data/code --weights web=0.7,code=0.3
        torchrun --nproc_per_node=8 train.py --dataset_dir data/corpus --resume
    """
    needs_torch("tokenmill train")
    from tokenmill.torch.world import find_ranks
    from tokenmill.train.start import train

    rank = find_ranks().rank
    unused = [settings.pop(name) for name in ("num_workers", "prefetch_factor")]
    if rank == 0 and unused != [None, None]:
        note("num_workers and prefetch_factor are not needed: one thread reads ahead")
    result = train(settings, config_file=config_file, resume=resume, quiet=is_quiet())
    if rank > 0:
        return Outcome(None)  # rank 0 speaks for all
    text = [result.sample] if result.sample else []
    return Outcome({**asdict(result), "run_dir": str(result.run_dir)}, results=text)


def needs_torch(what: str) -> None:
    """Raise an error that says how to install torch, where it is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError(what, package="torch", extra="torch") from None


@click.command(context_settings={"ignore_unknown_options": True})
@value("--nodes", "N", "Machines", default=1, type=flags.count)
@value("--gpus", "N", "GPUs of each; 0 trains on CPUs", default=1, type=flags.position)
@value("--cpus", "N", "CPUs for each GPU", default=4, type=flags.count)
@value("--memory", "SIZE", "For each CPU", default="8G")
@value("--time", "LIMIT", "As sbatch takes it", default="24:00:00")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[FLAGS OF train]...")
def slurm(nodes: int, gpus: int, cpus: int, memory: str, time: str, words: tuple[str, ...]) -> None:
    """Print a Slurm job to read, change and submit: training under `srun`.

    Before its time limit the job saves a checkpoint and requeues itself; every start resumes. All
    flags of `tokenmill train` are passed on; paths are relative to the current folder.

    \b
    Example:
        tokenmill train slurm --nodes 2 --gpus 8 --dataset_dir data/corpus --model_name wiki \\
            --config_file configs/150M_1024.json > job.sbatch
        sbatch job.sbatch
    """
    root = click.get_current_context().find_root()
    options = run_command.make_context("train", list(words), root).params
    try:
        config = load_config(options["config_file"], {name: options[name] for name in FLAGS})
        _ = config.source  # exactly one
    except ValueError as error:
        raise click.UsageError(as_flags(str(error), run_command)) from None
    header = {
        "job-name": "tokenmill-" + re.sub(r"[^\w.-]", "_", config.model_name),
        "nodes": nodes,
        "ntasks-per-node": gpus or 1,
        "gpus-per-node": gpus,
        "cpus-per-task": cpus,
        "mem-per-cpu": memory,
        "time": time,
    }
    job = JOB.read_text(encoding="utf-8")
    for name, setting in header.items():
        if not re.fullmatch(r"[\w:.-]+", str(setting)):
            raise click.UsageError(f"{name} {setting!r} is nothing that sbatch takes")
        job = re.sub(rf"(#SBATCH --{name}=)\S+", rf"\g<1>{setting}", job)
    job = job.replace("#SBATCH --gpus-per-node=0\n", "")
    before, _, after = job.partition("[ $# -gt 0 ]")  # the line with the usual arguments
    arguments = f'cd {shlex.quote(os.getcwd())} || exit\nset -- {shlex.join(words)} "$@"'
    job = f"{before}{arguments}\n{after.partition(chr(10))[2]}"
    own_python = f"TOKENMILL_PYTHON:-{shlex.quote(sys.executable)}"
    print(job.replace("TOKENMILL_PYTHON:-python", own_python), end="")


@click.command(cls=OutcomeCommand)
@click.argument("run")
@value("--prompt", "TEXT", "Text to continue  [default: a new document]")
@value("--max_new_tokens", "N", "Tokens of each sample, at most", default=200)
@value("--temperature", "X", "0 takes the likeliest token", default=0.8)
@value("--top_k", "K", "Draw from the likeliest K; 0 from all", default=200)
@value("--seed", "N", "Equal seeds give equal text", default=0)
@value("--num_samples", "N", "With seeds SEED, SEED+1, ...", default=1)
@value("--device", "NAME", "`cpu`, `cuda`, `cuda:1` or `mps`", default="auto")
def sample(
    run: str, prompt: str | None, top_k: int, seed: int, num_samples: int, **how: Any
) -> Outcome:
    """Generate text with the model of RUN, the folder that `tokenmill train` made.

    \b
    Examples:
        tokenmill sample runs/gpt --prompt "def main("
        tokenmill sample runs/gpt --temperature 0 --max_new_tokens 50
    """
    needs_torch("tokenmill sample")
    from tokenmill.train.start import sample

    samples = [
        {"seed": s, "text": sample(run, prompt or "", top_k=top_k or None, seed=s, **how)}
        for s in range(seed, seed + num_samples)
    ]
    return Outcome(samples, results=[str(each["text"]) for each in samples])


train = flags.GroupWithMain(run_command, "train", {"slurm": "Print this training as a Slurm job"})
