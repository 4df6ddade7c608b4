"""A script that submits a planned preparation to Slurm, written to be read."""

import shlex
import sys

from tokenmill.preparation.settings import Settings

# Stages that wait for each other; a part stops where it needs what other parts have not done.
STAGES = {
    "lines": ["hash lines", "find repeated lines", "encode", "join", "split", "write shards"],
    "documents": ["encode", "join", "hash documents", "find duplicates", "split", "write shards"],
    "none": ["encode", "join", "split", "write shards"],
}

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=tokenmill
#SBATCH --output=/dev/null
# Submits one preparation: an array of {parts} jobs for each stage, then a job that finishes it.
# Read it, change it, then:  sbatch job.sbatch   (or, on the login node:  bash job.sbatch)
#
# A job that failed is made good by the same part of the next array, at the latest by `finish`.
# It may be submitted again, also with other numbers: what is done is not done again.
set -euo pipefail

run={run}
tokenmill=({tokenmill})
parts={parts}
options=(--cpus-per-task={cpus} --mem-per-cpu={memory})   # add --partition, --account, --time

mkdir -p "$run/.preparation/logs"
log="$run/.preparation/logs"
part="${{tokenmill[*]@Q}} prepare work ${{run@Q}} --part \\$SLURM_ARRAY_TASK_ID/$parts"

# {stages}
before=
for stage in {numbers}; do
    before=$(sbatch --parsable --requeue "${{options[@]}}" \\
        ${{before:+--dependency=afterany:$before}} --job-name="tokenmill-$stage" \\
        --array="0-$((parts - 1))" --output="$log/stage-$stage-part-%a.log" \\
        --wrap "$part --workers {cpus}")
done
sbatch --parsable --requeue "${{options[@]}}" --dependency="afterany:$before" \\
    --job-name=tokenmill-finish --output={log} \\
    --wrap "${{tokenmill[*]@Q}} prepare status ${{run@Q}}
        ${{tokenmill[*]@Q}} prepare finish ${{run@Q}} --workers {cpus}"
"""


def make_script(run: str, settings: Settings, parts: int, cpus: int, memory: str) -> str:
    """The script for the preparation in the folder `run`."""
    stages = list(STAGES[settings.dedup])
    if settings.tokenizer == "chars":
        stages.insert(0, "find characters")
    return SCRIPT.format(
        run=shlex.quote(run),
        tokenmill=f"{shlex.quote(sys.executable)} -m tokenmill",
        parts=parts,
        cpus=cpus,
        memory=shlex.quote(memory),
        stages="; ".join(f"{number} {stage}" for number, stage in enumerate(stages, 1)),
        numbers=" ".join(str(number) for number in range(1, len(stages) + 1)),
        log=shlex.quote(f"{run}.finish.log"),
    )
