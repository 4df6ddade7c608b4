"""A preparation as numbered jobs: for Slurm arrays, PBS, Kubernetes, GNU parallel.

Parts hold no lock: they work side by side, and a task that two of them run leaves the same bytes
twice. `plan` and `finish` hold it, as `tokenmill prepare` does. See docs/guides/many_machines.md.
"""

import os
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from tokenmill.base.address import is_remote
from tokenmill.base.progress import Progress
from tokenmill.base.signals import stop_on_signals
from tokenmill.base.signatures import refuse_fields, takes_keywords_of
from tokenmill.errors import DownloadError, NotADatasetError, SettingsMismatchError
from tokenmill.executors.local import LocalExecutor
from tokenmill.executors.numbered import JobPart, NotReady, PartExecutor, StageReport
from tokenmill.preparation.planning.inputs import Inputs, ValInput
from tokenmill.preparation.planning.limits import decide_limits, fit_into_memory
from tokenmill.preparation.planning.plan import Plan, read_plan
from tokenmill.preparation.planning.settings import (
    APART,
    Chat,
    Details,
    Run,
    Settings,
    SettingsKeywords,
    all_given,
)
from tokenmill.preparation.prepare import choose_inputs, make_plan, publish, run_stages
from tokenmill.preparation.stage_table import stages_for
from tokenmill.preparation.stages.accounts import Summary
from tokenmill.preparation.workspace.existing_dataset import find_done
from tokenmill.preparation.workspace.target import Swap, Target, hold_workspace, open_target
from tokenmill.preparation.workspace.workspace import PLAN, workspace_at
from tokenmill.shards.manifest import FILE_NAME, Manifest

Folder = str | os.PathLike[str]
MOST_PARTS = 64
SCRIPT = Path(__file__).with_name("job.sbatch")


@dataclass(frozen=True)
class JobReport:
    """What a part did, or what is there."""

    stages: list[StageReport]
    finished: bool = False
    """The manifest is written: there is nothing left to do."""

    @property
    def complete(self) -> bool:
        """Whether all tasks are done, so that only `finish` is left."""
        return self.finished or not any(stage.missing for stage in self.stages)

    @property
    def missing(self) -> tuple[int, ...]:
        """Tasks of the last stage that are not done."""
        return self.stages[-1].missing if self.stages else ()


@takes_keywords_of(Settings, but=APART)
def plan(
    inputs: Inputs,
    out_dir: Folder,
    *,
    val_input: ValInput | None = None,
    append: bool = False,
    overwrite: bool = False,
    chat: Chat | None = None,
    details: Details = Details(),
    run: Run = Run(),
    **settings: Unpack[SettingsKeywords],
) -> Plan | Summary:
    """Write the plan of a preparation; or say that it was done before. Arguments of `prepare`."""
    refuse_fields("plan", run, "engine", "ray_address")
    memory = fit_into_memory(1, run.max_ram)
    given = all_given(settings, details, chat)
    with open_target(out_dir, run, append=append, overwrite=overwrite) as target:
        wanted, sources = choose_inputs(target, inputs, val_input, given, run)
        if done := find_done(target, wanted, sources):
            return done
        plan = make_plan(target, wanted, sources, given, memory, run)
        decide_limits(plan, memory, run.progress.say)
        target.workspace.share()
        return plan


def work(
    folder: Folder,
    part: JobPart,
    *,
    workers: int | None = 1,
    wait: float = 0.0,
    progress: Progress | None = None,
    scratch: Folder | None = None,
    max_scratch: int | str | None = None,
) -> JobReport:
    """Run the tasks of one part, stage after stage, until one needs what others have not done.

    `wait` is how many seconds to wait for parts that run at the same time. `scratch` and
    `max_scratch` are those of `Run`.
    """
    if (found := open_run(folder, scratch, max_scratch)) is None:
        return JobReport([], finished=True)
    target, plan = found
    target.workspace.refuse_locked()
    memory = fit_into_memory(workers, None)
    with stop_on_signals(), LocalExecutor(memory.workers) as local:
        try:
            executor = PartExecutor(local, part, wait=wait)
            return _run_part(plan, target, executor, progress or Progress())
        except (FileNotFoundError, DownloadError):
            if target.workspace.has(PLAN):
                raise
            return JobReport([], finished=True)  # `finish` was quicker, and removed the work


def status(folder: Folder) -> JobReport:
    """What is done so far; a stage is counted when those before it are complete."""
    if (found := open_run(folder)) is None:
        return JobReport([], finished=True)
    target, plan = found
    return _run_part(plan, target, PartExecutor(LocalExecutor(1), None), Progress())


def finish(
    folder: Folder,
    *,
    workers: int | None = None,
    run: Run = Run(),
) -> Summary | None:
    """Do whatever is missing, then write the manifest; None where that was done before."""
    started = time.monotonic()
    refuse_fields("finish", run, "engine", "ray_address", "work_dir", "unit_bytes")
    if (found := open_run(folder, run.scratch, run.max_scratch)) is None:
        return None
    target, plan = found
    memory = fit_into_memory(workers, run.max_ram)
    with hold_workspace(plan.workspace, break_lock=run.break_lock) as workspace:
        processes = memory.workers
        if memory.max_ram is not None:  # else the limits on documents stay those of the plan
            processes = decide_limits(plan, memory, run.progress.say)
        with LocalExecutor(processes) as executor:
            outcome = run_stages(plan, target.previous, executor, run.progress)
        workspace.clean_temporary()
        summary = publish(plan, target, outcome)
    summary.seconds = round(time.monotonic() - started, 3)
    return summary


def open_run(
    folder: Folder, scratch: Folder | None = None, max_scratch: int | str | None = None
) -> tuple[Target, Plan] | None:
    """Return the preparation in progress in a folder or bucket; None where it is finished."""
    if isinstance(folder, str) and is_remote(folder):
        from tokenmill.preparation.workspace.work_bucket import BucketPlace

        if plan := read_plan(workspace_at(BucketPlace.of(folder, scratch, max_scratch))):
            return _target(plan.workspace.out_dir, plan), plan
        raise NotADatasetError(
            f"{folder} holds no plan of a preparation: it is finished, or was not begun",
            hint=f"tokenmill prepare plan INPUT... -o OUT --work_dir {folder} writes one",
        )
    out = Path(folder)
    if plan := read_plan(workspace_at(out)) or read_plan(workspace_at(Swap(out).new)):
        return _target(out, plan), plan
    if (out / FILE_NAME).exists():
        return None
    raise NotADatasetError(
        f"{out} holds no plan of a preparation",
        hint=f"tokenmill prepare plan INPUT... -o {out} writes one",
    )


def _target(out: Path, plan: Plan) -> Target:
    append = plan.previous is not None
    swap = Swap(out)
    if plan.workspace.out_dir == swap.new:
        target = Target(out, plan.workspace, None, swap=swap)
    elif plan.destination is not None:
        from tokenmill.preparation.workspace.remote_target import resume_remote_target

        target = resume_remote_target(plan)
    else:
        target = Target(out, plan.workspace, Manifest.load(out) if append else None, append)
    if target.previous_hash != plan.previous:
        raise SettingsMismatchError(
            f"{target.name} changed since the plan to add to it was made",
            hint=f"remove {plan.workspace.name} and plan again",
        )
    return target


def _run_part(plan: Plan, target: Target, executor: PartExecutor, progress: Progress) -> JobReport:
    with suppress(NotReady):
        run_stages(plan, target.previous, executor, progress)
    return JobReport(executor.stages)


def usual_parts(plan: Plan) -> int:
    """How many parts make sense: a unit each, up to a bound."""
    return max(1, min(MOST_PARTS, len(plan.units)))


def make_slurm_script(run: str, plan: Plan, parts: int, cpus: int, memory: str) -> str:
    """The script for the preparation in the folder `run`."""
    stages = [stage.name for stage in stages_for(plan)]
    logs = "$PWD/tokenmill-logs" if is_remote(run) else "$run/.preparation/logs"
    return SCRIPT.read_text("utf-8").format(
        logs=f'"{logs}"',
        run=shlex.quote(run),
        tokenmill=f"{shlex.quote(sys.executable)} -m tokenmill",
        parts=parts,
        cpus=cpus,
        memory=shlex.quote(memory),
        stages="; ".join(f"{number} {stage}" for number, stage in enumerate(stages, 1)),
        numbers=" ".join(str(number) for number in range(1, len(stages) + 1)),
        log='"$log/finish.log"' if is_remote(run) else shlex.quote(f"{run}.finish.log"),
    )
