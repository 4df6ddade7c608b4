"""Promise: submitted to a real Slurm, arrays of jobs make the same bytes as one machine.

Two nodes on this machine, without accounting, users or encryption; needs Debian's packages
slurmctld, slurmd and slurm-client, and root.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import flat
import pytest
from small_corpus import files_of, write_corpus

import tokenmill

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "sinfo")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"Slurm is not installed: no {', '.join(MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="starting slurmd needs root"),
]

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_res
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
MinJobAge=300
ReturnToService=2
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=d1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000
NodeName=d2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=1000
PartitionName=p Nodes=d1,d2 Default=YES MaxTime=10
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A cluster of two nodes."""
    folder = tmp_path / "slurm"
    for name in ("state", "spool-d1", "spool-d2"):
        (folder / name).mkdir(parents=True)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    text = CONFIGURATION.format(host=socket.gethostname(), ports=ports, folder=folder)
    (folder / "slurm.conf").write_text(text)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    source = str(Path(tokenmill.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", source)
    daemons = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in (
            ["slurmctld", "-D", "-c"],
            ["slurmd", "-D", "-N", "d1"],
            ["slurmd", "-D", "-N", "d2"],
        )
    ]
    try:
        wait_until(lambda: output("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2", folder)
        yield folder
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout


def wait_until(condition, folder, seconds=100):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            logs = "\n".join(path.read_text()[-2000:] for path in folder.glob("*.log"))
            pytest.fail(f"nothing happened for {seconds} s\n{output('squeue')}\n{logs}")
        time.sleep(0.2)


def test_the_script_of_a_plan_makes_the_bytes_of_one_machine(slurm, tmp_path):
    write_corpus(tmp_path / "corpus", documents=100)
    settings = {"tokenizer": "bytes", "tokens_per_shard": 20_000, "unit_bytes": 40_000}
    flat.prepare(tmp_path / "corpus", tmp_path / "expected", workers=1, **settings)
    out = tmp_path / "a run"
    flat.plan(tmp_path / "corpus", out, **settings)
    command = [sys.executable, "-m", "tokenmill", "prepare", "slurm", str(out), "--parts", "2"]
    script = output(*command, "--memory", "100M")
    (tmp_path / "job.sbatch").write_text(script)

    submitted = subprocess.run(
        ["bash", tmp_path / "job.sbatch"], capture_output=True, text=True, cwd=tmp_path
    )
    assert submitted.returncode == 0, submitted.stderr
    wait_until(lambda: not output("squeue", "-h").strip(), slurm)

    log = Path(f"{out}.finish.log").read_text()
    assert (out / "dataset_metadata.json").exists(), log
    assert files_of(out) == files_of(tmp_path / "expected")
    assert "next: tokenmill prepare finish" in log, "the arrays left something undone"
    states = output("scontrol", "show", "job")
    assert states.count("JobState=COMPLETED") == 6 * 2 + 1
