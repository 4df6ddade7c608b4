"""`tokenmill prepare plan|work|status|finish|slurm`: a preparation as numbered jobs."""

import os
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.address import is_remote
from tokenmill.base.human import human_bytes, plural
from tokenmill.cli.flags import (
    as_keywords,
    count,
    scratch_options,
    value,
    work_options,
    workers_option,
)
from tokenmill.cli.outcome import Outcome, OutcomeCommand, command_progress
from tokenmill.cli.prepare import TakesValInput, preparation_options, summary_lines, take_inputs

if TYPE_CHECKING:
    from tokenmill.preparation.jobs import JobReport


@click.command(cls=TakesValInput)
@preparation_options
def plan(out_dir: str, **options: Any) -> Outcome:
    """Write the plan of a preparation, for jobs that share the work.

    The options are those of `tokenmill prepare`. Inputs and OUT must be seen by all machines under
    the same path. An existing plan of the same inputs and settings is left as it is.
    """
    from tokenmill.preparation import jobs
    from tokenmill.preparation.stages.accounts import Summary
    from tokenmill.text.inputs.open_input import printable

    inputs = take_inputs(options)
    made = jobs.plan(inputs, out_dir, **as_keywords(options))
    if isinstance(made, Summary):
        done = f"{made.out_dir} is finished: there is nothing to plan"
        return Outcome(made.to_json(), notes=[done])
    run = options["work_dir"] or out_dir
    units = len(made.units)
    parts = jobs.usual_parts(made)
    return Outcome(
        {"run": printable(run), "units": units, "bytes": made.bytes_in, "parts": parts},
        results=[f"{plural(units, 'unit')}, {human_bytes(made.bytes_in)} of input"],
        notes=[
            f"next: tokenmill prepare slurm {run} --parts {parts} > job.sbatch",
            f"  or: tokenmill prepare work {run} --part K/N, K from 0 to N-1",
        ],
    )


@click.command(cls=OutcomeCommand)
@click.argument("run", metavar="OUT")
@value("--part", "K/N", "Which part, K from 0 to N-1", required=True)
@value("--workers", "N", "Processes here", default=1)
@value("--wait", "SECONDS", "Wait this long for other parts that run now", default=0.0)
@scratch_options
def work(
    run: str,
    part: str,
    workers: int,
    wait: float,
    scratch: str | None,
    max_scratch: str | None,
) -> Outcome:
    """Do part K of N of the first stage that is not complete, and of the next ones while they can
    begin. A stage begins when the one before it is complete: run all parts again until `status`
    says that nothing is missing, or let `finish` do the rest.

    N may be another number each time; parts may run twice, at once and in any order.
    """
    from tokenmill.executors.numbered import JobPart
    from tokenmill.preparation import jobs

    which = JobPart.parse(part)
    with command_progress() as progress:
        report = jobs.work(
            run,
            which,
            workers=workers,
            wait=wait,
            progress=progress,
            scratch=scratch,
            max_scratch=max_scratch,
        )
    values, lines = _report(run, report, which.of)
    return Outcome(values, notes=lines)


@click.command(cls=OutcomeCommand)
@click.argument("run", metavar="OUT")
@value("--parts", "N", "Name missing parts of N", type=count)
def status(run: str, parts: int | None) -> Outcome:
    """Say how far each stage is, and which parts are missing, as `sbatch --array` takes them."""
    from tokenmill.preparation import jobs

    report = jobs.status(run)
    found = jobs.open_run(run)
    values, lines = _report(run, report, parts or (jobs.usual_parts(found[1]) if found else 1))
    return Outcome(values, results=lines)


def _report(run: str, report: "JobReport", parts: int) -> tuple[dict[str, Any], list[str]]:
    from tokenmill.executors.numbered import to_array

    array = to_array(task % parts for task in report.missing)
    lines = [
        f"{stage.name:<19} {stage.tasks - len(stage.missing):,} of {stage.tasks:,} done"
        for stage in report.stages
    ]
    if report.finished:
        lines.append(f"{run} is finished: there is nothing to do")
    elif report.complete:
        lines.append(f"next: tokenmill prepare finish {run}")
    else:
        lines.append(f"missing parts of {parts}: {array}")
    stages = [{"name": s.name, "tasks": s.tasks, "missing": list(s.missing)} for s in report.stages]
    values = {"finished": report.finished, "complete": report.complete, "stages": stages}
    return {**values, "parts": parts, "array": array}, lines


@click.command(cls=OutcomeCommand)
@click.argument("run", metavar="OUT")
@workers_option
@work_options
@scratch_options
def finish(run: str, **options: Any) -> Outcome:
    """Do whatever is missing on this machine, check that the counts agree, write the manifest."""
    from tokenmill.preparation import jobs

    with command_progress() as progress:
        summary = jobs.finish(run, **as_keywords(options, progress))
    if summary is None:
        done = {"out_dir": run, "already_there": True}
        return Outcome(done, notes=[f"{run} is finished: there is nothing to do"])
    return Outcome(summary.to_json(), notes=summary_lines(summary))


@click.command()
@click.argument("run", metavar="OUT")
@value("--parts", "N", "Jobs in each array", type=count)
@value("--cpus", "N", "CPUs of each job", default=1, type=count)
@value("--memory", "SIZE", "For each CPU", default="2G")
def slurm(run: str, parts: int | None, cpus: int, memory: str) -> None:
    """Print a script to read, change and submit: an array for each stage, then `finish`."""
    from tokenmill.preparation import jobs

    found = jobs.open_run(run)
    if found is None:
        raise click.UsageError(f"{run} is finished: there is nothing to submit")
    of = parts or jobs.usual_parts(found[1])
    place = run if is_remote(run) else os.path.abspath(run)
    print(jobs.make_slurm_script(place, found[1], of, cpus, memory), end="")
