#!/bin/bash
#SBATCH --job-name=tokenmill-train
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1       # one task for each GPU: change both numbers together
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=8G
#SBATCH --time=24:00:00           # add --partition and --account
#SBATCH --requeue
#SBATCH --signal=B:USR1@300       # five minutes before the end: time for a checkpoint
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
#
# Trains under srun. Before the time limit it saves a checkpoint and puts itself in the queue again;
# every start resumes. A node that fails is Slurm's own reason to start it again.
#
#     sbatch scripts/submit_job.sh --dataset_dir data/corpus --model_name wiki
#
# Arguments after the script are those of `tokenmill train`. `tokenmill train slurm` prints this job
# with other numbers and with arguments, to which those after the script are added.
[ $# -gt 0 ] || set -- --dataset_dir data/corpus --config_file configs/150M_1024.json

set -u
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export TOKENMILL_PYTHON=${TOKENMILL_PYTHON:-python}

# All ranks stop at the same step; those that are ready early wait for the one that saves.
srun --kill-on-bad-exit=0 --wait=300 bash -c \
    'LOCAL_RANK=$SLURM_LOCALID exec "$TOKENMILL_PYTHON" -m tokenmill train "$@" --resume' \
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
