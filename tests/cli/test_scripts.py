"""The scripts that existing projects call by name: thin, and they do what they say."""

import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import train_runs

from tokenmill.cli import main
from tokenmill.train.config import load_config
from tokenmill.train.run_record import points

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "src"),
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
}
TINY = {**train_runs.TINY, "max_iters": 6, "eval_interval": 3, "sample_tokens": 0, "n_embd": 16}


def run(name, *arguments, cwd):
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / name, *map(str, arguments)],
        env=ENVIRONMENT,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.fixture
def files(tmp_path):
    """The two files that the scripts take when none are named."""
    folder = tmp_path / "training_data"
    folder.mkdir()
    np.save(folder / "owt_train_tokens.npy", np.arange(5000, dtype="<i4") % 257)
    np.save(folder / "owt_valid_tokens.npy", np.arange(900, dtype="<i4") % 200)
    return tmp_path


def test_local_data_that_is_right(files):
    done = run(
        *("test_local_data.py", "--batch_size", 4, "--max_length", 32, "--seconds", 0.1), cwd=files
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok    train: 5,000 tokens of int32 (npy), ids up to 256")
    assert lines[3].startswith("ok    val: 900 tokens of int32 (npy), ids up to 199")
    assert lines.count("ok    batches: (4, 32) int64, targets one token later") == 2
    assert lines.count("ok    resuming: the next batch is the same") == 2
    assert lines[-1].endswith("tokens a second")


def test_files_that_np_memmap_wrote_are_read_by_both_scripts(files):
    """Seed 001: `.npy` by name, but int32 ids and no header."""
    ids = 7 * np.arange(8000, dtype=np.int32) % 257
    for name, some in (("train", ids), ("valid", ids[:2000])):
        path = files / "training_data" / f"owt_{name}_tokens.npy"
        path.unlink()
        mapped = np.memmap(path, dtype=np.int32, mode="w+", shape=some.shape)
        mapped[:] = some
        mapped.flush()

    looked = run(
        *("test_local_data.py", "--batch_size", 4, "--max_length", 32, "--seconds", 0.1), cwd=files
    )
    small = train_runs.flags({**TINY, "compile": "off", "precision": "fp32", "vocab_size": 257})
    trained = run("train_h100_optimized.py", *small, cwd=files)

    assert looked.returncode == 0, looked.stderr
    assert looked.stdout.startswith("ok    train: 8,000 tokens of int32 (dolma), ids up to 256")
    assert trained.returncode == 0, trained.stderr
    for done in (looked, trained):
        assert "owt_train_tokens.npy has no header" in done.stderr


def test_local_data_splits_one_file_itself(files):
    (files / "training_data" / "owt_valid_tokens.npy").unlink()

    done = run(
        *("test_local_data.py", "--train_data_path", "training_data/owt_train_tokens.npy"),
        *("--batch_size", 4, "--max_length", 32, "--seconds", 0.1),
        cwd=files,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok    splits: 5,000 tokens in train and val, of 5,000\n")


@pytest.mark.parametrize("wrong", [-5, 50257])
def test_local_data_with_an_id_that_is_none(files, wrong):
    ids = np.arange(900, dtype="<i4")
    ids[700] = wrong
    np.save(files / "training_data" / "owt_valid_tokens.npy", ids)

    done = run("test_local_data.py", "--max_length", 32, cwd=files)

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("WRONG val: 900 tokens of int32")
    assert str(wrong) in done.stdout.splitlines()[-1]


def test_local_data_that_is_not_there(tmp_path):
    done = run("test_local_data.py", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith("error: there is no file or folder 'training_data/owt_train")


def test_pytest_collects_no_script(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "scripts"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout


def test_h100_takes_the_files_and_the_config_that_are_not_given(files):
    with_defaults = runpy.run_path(str(ROOT / "scripts" / "train_h100_optimized.py"))[
        "with_defaults"
    ]
    config = ["--config_file", str(ROOT / "configs" / "h100.json")]

    assert with_defaults(["--batch-size", "64"])[:4] == [
        *config,
        "--train_data_path",
        "training_data/owt_train_tokens.npy",
    ]
    assert with_defaults(["--dataset-dir=d"]) == [*config, "--dataset-dir=d"]
    assert with_defaults(["--config_file=c", "--input_file", "x"])[0] == "--config_file=c"
    small = train_runs.flags({**TINY, "compile": "off", "precision": "fp32", "vocab_size": 257})
    done = run("train_h100_optimized.py", *small, cwd=files)
    assert done.returncode == 0, done.stderr
    settings = json.loads((files / "runs" / "gpt" / "config.json").read_text())
    assert settings["val_data_path"] == "training_data/owt_valid_tokens.npy"


def write_list(folder, *runs, **common):
    (folder / "input.txt").write_text(train_runs.text(300))
    listed = {"common": {**TINY, "input_file": "input.txt", **common}, "runs": runs}
    (folder / "experiments.json").write_text(json.dumps(listed))


def test_experiments_are_trained_in_turn_and_resumed(tmp_path):
    write_list(tmp_path, {"model_name": "small"}, {"model_name": "wrong", "n_head": 3})
    first = run("experiments.py", cwd=tmp_path)
    assert first.returncode == 1
    assert "n_head" in first.stderr
    out = tmp_path / "runs" / "experiments"
    assert [line.split(" | ")[0] for line in (out / "losses.md").read_text().splitlines()[2:]] == [
        "| small"
    ]
    before = (out / "small" / "checkpoints" / "latest").stat().st_mtime_ns

    write_list(tmp_path, {"model_name": "small"}, {"model_name": "wide", "n_embd": 32})
    second = run("experiments.py", cwd=tmp_path)

    assert second.returncode == 0, second.stderr
    assert (out / "small" / "checkpoints" / "latest").stat().st_mtime_ns == before
    table = (out / "losses.md").read_text()
    assert table in second.stdout
    for name, line in zip(("small", "wide"), table.splitlines()[2:], strict=True):
        val = points(out / name / "metrics.jsonl", "val_loss")
        assert line.startswith(f"| {name} | 6 | ")
        assert line.endswith(f" | {val[-1][1]:.4f} | {min(v for _, v in val):.4f} |")
    picture = (out / "losses.svg").read_text()
    assert picture.count("<path") == 4  # a curve and a line of the legend for each
    assert ">small " in picture
    assert ">wide " in picture


def test_experiments_without_a_list_explain_themselves(tmp_path):
    done = run("experiments.py", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: there is no list of runs experiments.json in {tmp_path}")
    assert '"runs": [{"model_name": "small"}' in done.stderr
    assert f"hint: cp {ROOT / 'scripts' / 'experiments.json'} ." in done.stderr


@pytest.mark.parametrize("content", ["[]", "{}", '{"common": {}}', "{"])
def test_experiments_that_are_no_list_are_refused(tmp_path, content):
    (tmp_path / "experiments.json").write_text(content)

    done = run("experiments.py", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith("error: ")


def test_the_example_of_a_list_is_one(tmp_path):
    listed = json.loads((ROOT / "scripts" / "experiments.json").read_text())

    for each in listed["runs"]:
        settings = {**listed["common"], **each}
        config = load_config(str(ROOT / settings.pop("config_file")), settings)
        assert config.input_file == "input.txt"


def test_experiments_of_one_name_are_refused(tmp_path):
    write_list(tmp_path, {"model_name": "a"}, {"model_name": "a", "n_embd": 32})

    done = run("experiments.py", cwd=tmp_path)

    assert done.returncode == 1
    assert "each run needs a model_name of its own" in done.stderr


SRUN = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
export SLURM_STEP_ID=0 SLURM_NTASKS=${TASKS:-1}
for task in $(seq 1 $((SLURM_NTASKS - 1))); do
    SLURM_PROCID=$task SLURM_LOCALID=$task "$@" &
done
SLURM_PROCID=0 SLURM_LOCALID=0 exec "$@"
"""
SCONTROL = """#!/bin/bash
if [ "$1" = show ]; then echo localhost; else echo "$@" >> requeued; fi
"""


@pytest.fixture
def slurm(tmp_path):
    """A Slurm of two programs, and the environment of a job."""
    (tmp_path / "bin").mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "input.txt").write_text(train_runs.text(300))
    environment = {
        **ENVIRONMENT,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "TOKENMILL_PYTHON": sys.executable,
        "SLURM_JOB_ID": str(os.getpid()),  # the port of the ranks depends on it
        "SLURM_JOB_NODELIST": "node1",
    }

    def submit(tasks=1, job=None, **settings):
        flags = train_runs.flags({**TINY, "input_file": "input.txt", **settings})
        return subprocess.Popen(
            ["bash", job] if job else ["bash", ROOT / "scripts" / "submit_job.sh", *flags],
            env={**environment, "TASKS": str(tasks)},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return submit


def wait_for_step(tmp_path, job):
    """Until a step was logged."""
    metrics = tmp_path / "runs" / "gpt" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not points(metrics, "loss"):
        assert job.poll() is None, job.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_slurm_job_requeues_itself_before_the_time_limit_and_resumes(slurm, tmp_path):
    job = slurm(max_iters=1_000_000, decay_iters=50)
    wait_for_step(tmp_path, job)
    job.send_signal(signal.SIGUSR1)
    printed, _ = job.communicate(timeout=120)

    assert job.returncode == 75, printed
    assert (tmp_path / "requeued").read_text() == f"requeue {os.getpid()}\n"
    stopped_at = points(tmp_path / "runs" / "gpt" / "metrics.jsonl", "loss")[-1][0]

    again = slurm(max_iters=stopped_at + 5, decay_iters=50)
    printed, _ = again.communicate(timeout=120)

    assert again.returncode == 0, printed
    assert f"resumed at step {stopped_at:,}" in printed
    assert (tmp_path / "requeued").read_text() == f"requeue {os.getpid()}\n"


def test_the_tasks_of_the_slurm_job_find_each_other(slurm):
    job = slurm(tasks=2)
    printed, _ = job.communicate(timeout=120)

    assert job.returncode == 0, printed
    assert "rank 0 of 2, from Slurm step" in printed
    assert "Trained to step 6" in printed


def print_job(capsys, *flags):
    with pytest.raises(SystemExit) as ended:
        main(["train", "slurm", *flags])
    found = capsys.readouterr()
    assert ended.value.code == 0, found.err
    return found.out


def test_a_printed_slurm_job_trains_with_its_flags(slurm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a folder").mkdir()
    monkeypatch.chdir(tmp_path / "a folder")  # the job comes back here by itself
    settings = {**TINY, "input_file": "../input.txt", "model_name": "it's new"}
    job = tmp_path / "job.sbatch"
    job.write_text(print_job(capsys, *train_runs.flags(settings), "--gpus", "0"))

    done = slurm(job=job)
    printed, _ = done.communicate(timeout=120)

    assert done.returncode == 0, printed
    assert "Trained to step 6" in printed
    saved = json.loads((tmp_path / "a folder" / "runs" / "it's new" / "config.json").read_text())
    assert {name: saved[name] for name in settings} == settings


def test_the_printed_job_is_the_script_to_submit_but_for_numbers_and_arguments(capsys):
    script = (ROOT / "scripts" / "submit_job.sh").read_text().splitlines()
    flags = [
        "--dataset_dir",
        "d",
        "--model_name",
        "train",
        "--nodes",
        "2",
        "--gpus",
        "8",
        "--memory",
        "9G",
    ]

    printed = print_job(capsys, *flags).splitlines()

    changed = [line for line in printed if line not in script]
    assert [line.partition(" ")[0] for line in changed[-3:]] == ["cd", "set", "export"]
    assert [line.split()[1] for line in changed[:-3]] == [
        "--nodes=2", "--ntasks-per-node=8", "--gpus-per-node=8", "--mem-per-cpu=9G"
    ]  # fmt: skip
    assert len(printed) == len(script) + 1


def test_a_printed_slurm_job_passes_the_flags_of_train_on_as_they_were_typed(tmp_path, capsys):
    config = tmp_path / "a.json"
    config.write_text("{}")
    flags = ["--train_data_path", "data/x y", "--val-data-path=it's", "--no_documents", "-q"]
    flags += ["--skip_steps", "3,5-7", "--batch_size", "1k", "--config_file", str(config)]

    text = print_job(capsys, *flags, "--nodes", "3", "--time", "1-00")

    [line] = [line for line in text.splitlines() if line.startswith("set -- ")]
    given = shlex.split(line)[2:-1]
    assert given == flags
    assert "#SBATCH --nodes=3\n" in text
    assert "#SBATCH --time=1-00 " in text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "none is given\n\nhint: --input_file text.txt, or --dataset_dir"),
        (["--dataset_dir", "a", "--input_file", "b"], "2 are given: input_file, dataset_dir"),
        (["--dataset_dir", "a", "--config_file", "no.json"], "no config file no.json"),
        (["--dataset_dir", "a", "--max_itres", "3"], "max_iters"),
        (["--dataset_dir", "a", "--time", "1h\n#SBATCH -x"], "is nothing that sbatch takes"),
    ],
)
def test_a_slurm_job_that_cannot_train_is_not_printed(flags, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "slurm", *flags])

    found = capsys.readouterr()
    assert ended.value.code in (1, 2)
    assert found.out == ""
    assert said in found.err


def test_the_slurm_job_is_not_requeued_after_an_error(slurm, tmp_path):
    job = slurm(n_head=3)
    printed, _ = job.communicate(timeout=120)

    assert job.returncode not in (0, 75), printed
    assert not (tmp_path / "requeued").exists()
