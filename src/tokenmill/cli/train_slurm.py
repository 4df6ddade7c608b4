"""`tokenmill train slurm`: print a Slurm job that trains, requeues itself and resumes.

`submit_job.sh` is the job, also found as scripts/submit_job.sh; here its numbers and arguments are
filled in.
"""

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tokenmill.cli.flags import count, switch, value
from tokenmill.cli.train import SOURCES, TrainCommand, train_options

JOB = {"section": "The job"}
TEMPLATE = Path(__file__).with_name("submit_job.sh")
OPEN_ARGUMENTS = re.compile(r"^\[ \$# -gt 0 \].*$", re.MULTILINE)


@click.command(cls=TrainCommand)
@value("--nodes", "N", "Machines", default=1, type=count, **JOB)
@value("--gpus", "N", "GPUs of each; 0 trains on CPUs", default=1, type=click.IntRange(0), **JOB)
@value("--cpus", "N", "CPUs for each GPU", default=4, type=count, **JOB)
@value("--memory", "SIZE", "For each CPU", default="8G", **JOB)
@value("--time", "LIMIT", "As sbatch takes it", default="24:00:00", **JOB)
@train_options
@switch("--json", "As in `tokenmill train`")
@switch("-q --quiet", "As in `tokenmill train`")
def command(
    nodes: int, gpus: int, cpus: int, memory: str, time: str, resume: bool, **options: Any
) -> None:
    """Print a Slurm job to read, change and submit: training under `srun`.

    Before its time limit the job saves a checkpoint and requeues itself; every start resumes. All
    flags of `tokenmill train` are passed on; paths are relative to the current folder.

    \b
    Example:
        tokenmill train slurm --nodes 2 --gpus 8 --dataset_dir data/corpus --model_name wiki \\
            --config_file configs/150M_1024.json > job.sbatch
        sbatch job.sbatch
    """
    sources = [name for name in SOURCES if options[name] is not None]
    if len(sources) > 1 or not (sources or options["config_file"]):
        given = " and ".join(f"--{name}" for name in sources) or "none"
        raise click.UsageError(f"exactly one of --{', --'.join(SOURCES)} is needed; given: {given}")
    for name, text, pattern in (("time", time, r"[\d:-]+"), ("memory", memory, r"\d+[KMGT]?")):
        if not re.fullmatch(pattern, text):
            raise click.UsageError(f"--{name} {text!r} is nothing that sbatch takes")
    header = {
        "job-name": "tokenmill-" + re.sub(r"[^\w.-]", "_", options["model_name"] or "train"),
        "nodes": nodes,
        "ntasks-per-node": gpus or 1,
        "gpus-per-node": gpus,
        "cpus-per-task": cpus,
        "mem-per-cpu": memory,
        "time": time,
    }
    print(fill_in(TEMPLATE.read_text(encoding="utf-8"), header, _words(options)), end="")


def fill_in(job: str, header: Mapping[str, object], words: Sequence[str]) -> str:
    """Return the job with these values in its #SBATCH lines, and these words for `train`."""
    for name, setting in header.items():
        job = re.sub(rf"(#SBATCH --{name}=)\S+", rf"\g<1>{setting}", job)
    job = job.replace("#SBATCH --gpus-per-node=0\n", "")
    arguments = f'cd {shlex.quote(os.getcwd())} || exit\nset -- {shlex.join(words)} "$@"'
    job = OPEN_ARGUMENTS.sub(lambda _: arguments, job)
    return job.replace(
        "TOKENMILL_PYTHON:-python", f"TOKENMILL_PYTHON:-{shlex.quote(sys.executable)}"
    )


def _words(options: dict[str, Any]) -> list[str]:
    """The options that were given, as they are typed."""
    words = []
    for name, setting in options.items():
        if setting is True:
            words.append(f"--{name}")
        elif setting is False and name not in ("json", "quiet"):
            words.append(f"--no_{name}")
        elif setting is not None and setting is not False:
            words += [f"--{name}", str(setting)]
    return words
