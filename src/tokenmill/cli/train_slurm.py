"""`tokenmill train slurm`: print a Slurm job that trains, requeues itself and resumes.

`scripts/submit_job.sh` is the same script, with its arguments left open.
"""

import os
import re
import shlex
import sys
from typing import Any

import click

from tokenmill.cli.flags import COUNT, SectionedCommand, switch, value
from tokenmill.cli.train import SOURCES, train_options

JOB = {"section": "The job"}
ANYTHING = "--dataset_dir data/corpus --config_file configs/150M_1024.json"

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={tasks}       # one task for each GPU: change both numbers together
{gpus}#SBATCH --cpus-per-task={cpus}
#SBATCH --mem-per-cpu={memory}
#SBATCH --time={time}           # add --partition and --account
#SBATCH --requeue
#SBATCH --signal=B:USR1@300       # five minutes before the end: time for a checkpoint
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
#
# Trains under srun. Before the time limit it saves a checkpoint and puts itself in the queue again;
# every start resumes. A node that fails is Slurm's own reason to start it again.
#
{usage}

set -u
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export TOKENMILL_PYTHON=${{TOKENMILL_PYTHON:-{python}}}

# All ranks stop at the same step; those that are ready early wait for the one that saves.
srun --kill-on-bad-exit=0 --wait=300 bash -c \\
    'LOCAL_RANK=$SLURM_LOCALID exec "$TOKENMILL_PYTHON" -m tokenmill train "$@" --resume' \\
    train "$@" &
step=$!

warned=
trap 'warned=1; kill -USR1 "$step"' USR1   # srun passes it on to every task
code=
while [ -z "$code" ]; do
    wait "$step"
    code=$?
    [ "$code" = 138 ] && [ -n "$warned" ] && code=   # the signal ended the wait, not the training
done

# 75: stopped and saved. Only the time limit is a reason to start again, not `scancel`.
if [ "$code" = 75 ] && [ -n "$warned" ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""
OPEN_USAGE = f"""\
#     sbatch scripts/submit_job.sh --dataset_dir data/corpus --model_name wiki
#
# The arguments are those of `tokenmill train`; without any, the ones in the next line are used.
[ $# -gt 0 ] || set -- {ANYTHING}"""
USAGE = """\
#     sbatch job.sbatch
#
# Arguments of sbatch after the script are added to those of `tokenmill train` here, and win.
cd {folder} || exit
set -- {words} "$@\""""


@click.command(cls=SectionedCommand)
@value("--nodes", "N", "Machines", default=1, type=COUNT, **JOB)
@value("--gpus", "N", "GPUs of each; 0 trains on CPUs", default=1, type=click.IntRange(0), **JOB)
@value("--cpus", "N", "CPUs for each GPU", default=4, type=COUNT, **JOB)
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
    words = _words(options)
    sources = [name for name in SOURCES if options[name] is not None]
    if len(sources) > 1 or not (sources or options["config_file"]):
        found = " and ".join(f"--{name}" for name in sources) or "none"
        raise click.UsageError(f"exactly one of --{', --'.join(SOURCES)} is needed; given: {found}")
    for name, text, pattern in (("time", time, r"[\d:-]+"), ("memory", memory, r"\d+[KMGT]?")):
        if not re.fullmatch(pattern, text):
            raise click.UsageError(f"--{name} {text!r} is nothing that sbatch takes")
    usage = USAGE.format(folder=shlex.quote(os.getcwd()), words=" ".join(map(shlex.quote, words)))
    name = re.sub(r"[^\w.-]", "_", options["model_name"] or "train")
    python = shlex.quote(sys.executable)
    print(make_job(f"tokenmill-{name}", usage, python, nodes, gpus, cpus, memory, time), end="")


def make_job(
    name: str = "tokenmill-train",
    usage: str = OPEN_USAGE,
    python: str = "python",
    nodes: int = 1,
    gpus: int = 1,
    cpus: int = 4,
    memory: str = "8G",
    time: str = "24:00:00",
) -> str:
    """The text of the job; by default that of scripts/submit_job.sh."""
    return SCRIPT.format(
        name=name,
        usage=usage,
        python=python,
        nodes=nodes,
        tasks=gpus or 1,
        gpus=f"#SBATCH --gpus-per-node={gpus}\n" if gpus else "",
        cpus=cpus,
        memory=memory,
        time=time,
    )


def _words(options: dict[str, Any]) -> list[str]:
    """What was given, as it is typed."""
    words = []
    for name, given in options.items():
        if given is True:
            words.append(f"--{name}")
        elif given is False and name not in ("json", "quiet"):
            words.append(f"--no_{name}")
        elif given is not None and given is not False:
            words += [f"--{name}", str(given)]
    return words
