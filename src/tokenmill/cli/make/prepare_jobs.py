"""`tokenmill prepare plan|work|status|finish|slurm`: a preparation as numbered jobs."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import orjson
from click.core import ParameterSource

from tokenmill.base.human import human_bytes, human_rate
from tokenmill.base.progress import Bar, Lines, Progress, Silent
from tokenmill.executors.numbered import Part, to_array
from tokenmill.preparation.summary import Summary
from tokenmill.text.inputs.open_input import printable

JOBS_HELP = """\b
On many machines, as numbered jobs (each has its own --help):
    tokenmill prepare plan INPUT... -o OUT   write the plan
    tokenmill prepare work OUT --part K/N    do one part of what can be done now
    tokenmill prepare status OUT             what is done, what is missing
    tokenmill prepare finish OUT             whatever is missing, then the manifest
    tokenmill prepare slurm OUT              print a script that submits all of these
"""
NOT_OF_A_PLAN = ("estimate", "workers", "engine", "ray_address", "quiet")


class WithJobs(click.Command):
    """A command whose first argument may be one of the jobs; an input of that name is ./plan."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **e: Any
    ) -> click.Context:
        """The context of this command, or of the job that is asked for."""
        if args and args[0] in JOBS:
            job = JOBS[args[0]]
            if job is plan_command:
                job.params = [p for p in self.params if p.name not in NOT_OF_A_PLAN]
            return job.make_context(f"{info_name} {args[0]}", args[1:], parent, **e)
        return super().make_context(info_name, args, parent, **e)


@click.command(short_help="Write the plan of a preparation")
@click.pass_context
def plan_command(ctx: click.Context, /, **options: Any) -> None:
    """Write the plan of a preparation, for jobs that share the work.

    The options are those of `tokenmill prepare`. Inputs and OUT must be seen by all machines under
    the same path. An existing plan of the same inputs and settings is left as it is.
    """
    from tokenmill.preparation import jobs

    inputs = [*options.pop("inputs"), *options.pop("input_files")]
    if not inputs:
        raise click.UsageError("no input was given; name files, folders or globs")
    out_dir, as_json = options.pop("out_dir"), options.pop("as_json")
    run = {
        name: options.pop(name)
        for name in ("max_ram", "append", "overwrite", "break_lock", "work_dir")
    }
    made = jobs.plan(inputs, out_dir, **run, **given_settings(ctx, options))
    if isinstance(made, Summary):
        print(f"{made.out_dir} is finished: there is nothing to plan", file=sys.stderr)
        return
    where, parts = str(run["work_dir"] or out_dir), jobs.usual_parts(made)
    if as_json:
        found = {
            "run": printable(where),
            "units": len(made.units),
            "bytes": made.bytes_in,
            "parts": parts,
        }
        print(orjson.dumps(found).decode())
        return
    print(f"{len(made.units)} units, {human_bytes(made.bytes_in)} of input")
    print(f"next: tokenmill prepare slurm {where} --parts {parts} > job.sbatch", file=sys.stderr)
    print(f"  or: tokenmill prepare work {where} --part K/N, K from 0 to N-1", file=sys.stderr)


@click.command(short_help="Do one part of what can be done now")
@click.argument("run", metavar="OUT")
@click.option("--part", metavar="K/N", required=True, help="Which part, K from 0 to N-1.")
@click.option(
    "--workers", type=int, default=1, show_default=True, metavar="N", help="Processes here."
)
@click.option(
    "--wait",
    type=float,
    default=0.0,
    metavar="SECONDS",
    help="Wait so long for other parts that run now, before each stage.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def work_command(run: str, part: str, workers: int, wait: float, quiet: bool) -> None:
    """Do part K of N of the first stage that is not complete, and of the next ones while they can
    begin. A stage begins when the one before it is complete: run all parts again until `status`
    says that nothing is missing, or let `finish` do the rest.

    N may be another number each time; parts may run twice, at once and in any order.
    """
    from tokenmill.preparation import jobs

    which = Part.parse(part)
    with show_progress(quiet) as progress:
        report = jobs.work(run, which, workers=workers, wait=wait, progress=progress)
    if quiet:
        return
    if report.finished:
        print(f"{run} is finished: there is nothing to do", file=sys.stderr)
    for stage in report.stages:
        if not stage.ran and stage is not report.stages[-1]:
            continue
        missing = f", {len(stage.missing):,} missing" if stage.missing else ""
        print(
            f"  {stage.name:<18} {stage.tasks:,} tasks: {stage.ran:,} done by part {which}"
            f"{missing}",
            file=sys.stderr,
        )
    if report.complete and not report.finished:
        print(f"all tasks are done; next: tokenmill prepare finish {run}", file=sys.stderr)
    elif report.missing:
        print(
            f"other parts must finish {report.stages[-1].name!r} before this one can go on",
            file=sys.stderr,
        )


@click.command(short_help="What is done and what is missing")
@click.argument("run", metavar="OUT")
@click.option("--parts", type=click.IntRange(1), metavar="N", help="Name missing parts of N.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status_command(run: str, parts: int | None, as_json: bool) -> None:
    """Say how far each stage is, and which parts are missing, as `sbatch --array` takes them."""
    from tokenmill.preparation import jobs

    report = jobs.status(run)
    found = jobs.open_run(run)
    of = parts or (jobs.usual_parts(found[1]) if found else 1)
    array = to_array(jobs.parts_missing(report.missing, of))
    if as_json:
        stages = [
            {"name": s.name, "tasks": s.tasks, "missing": list(s.missing)} for s in report.stages
        ]
        state = {"finished": report.finished, "complete": report.complete, "stages": stages}
        print(orjson.dumps({**state, "parts": of, "array": array}).decode())
        return
    for stage in report.stages:
        print(f"{stage.name:<18} {stage.tasks - len(stage.missing):,} of {stage.tasks:,} done")
    if report.finished:
        print("finished")
    elif report.complete:
        print(f"next: tokenmill prepare finish {run}")
    else:
        print(f"missing parts of {of}: {array}")


@click.command(short_help="Whatever is missing, then the manifest")
@click.argument("run", metavar="OUT")
@click.option("--workers", type=int, metavar="N", help="Processes.  [default: number of cores]")
@click.option("--max-ram", metavar="SIZE", help="Memory to stay within, such as 4G.")
@click.option("--break-lock", is_flag=True, help="Take OUT over from a machine that is gone.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def finish_command(run: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Do whatever is missing on this machine, check that the books balance, write the manifest."""
    from tokenmill.preparation import jobs

    with show_progress(quiet) as progress:
        outcome = jobs.finish(run, progress=progress, **options)
    if outcome is None:
        print(f"{run} is finished: there is nothing to do", file=sys.stderr)
    elif as_json:
        print(orjson.dumps(outcome.to_json()).decode())
    elif not quiet:
        tell(outcome)


@click.command(short_help="Print a script that submits everything to Slurm")
@click.argument("run", metavar="OUT")
@click.option("--parts", type=click.IntRange(1), metavar="N", help="Jobs in each array.")
@click.option("--cpus", type=click.IntRange(1), default=1, show_default=True, metavar="N")
@click.option("--memory", default="2G", show_default=True, metavar="SIZE", help="For each CPU.")
def slurm_command(run: str, parts: int | None, cpus: int, memory: str) -> None:
    """Print a script to read, change and submit: an array for each stage, then `finish`."""
    from tokenmill.preparation import jobs
    from tokenmill.preparation.slurm import make_script

    found = jobs.open_run(run)
    if found is None:
        raise click.UsageError(f"{run} is finished: there is nothing to submit")
    of = parts or jobs.usual_parts(found[1])
    print(make_script(os.path.abspath(run), found[1].settings, of, cpus, memory), end="")


JOBS = {
    "plan": plan_command,
    "work": work_command,
    "status": status_command,
    "finish": finish_command,
    "slurm": slurm_command,
}


@contextmanager
def show_progress(quiet: bool) -> Iterator[Progress]:
    """A bar on a terminal, lines elsewhere, or nothing."""
    if not quiet and sys.stderr.isatty():
        with Bar() as bar:
            yield bar
    else:
        yield Silent() if quiet else Lines()


def given_settings(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Only what was really given: the rest is the library's default, or the dataset's own."""
    given = {
        name: value
        for name, value in options.items()
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    if given.pop("no_normalize", False):
        given["normalize"] = False
    if given.pop("no_dedup", False):
        if given.get("dedup", "none") != "none":
            raise click.UsageError(f"--no_dedup and --dedup {given['dedup']} contradict each other")
        given["dedup"] = "none"
    return given


def tell(outcome: Summary) -> None:
    """The outcome for people."""
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in sorted(outcome.dropped.items()))
    kept = f"read {outcome.documents_in:,} documents, kept {outcome.documents_written:,}"
    size = 2 if outcome.dtype == "uint16" else 4
    tokens = outcome.train_tokens + outcome.val_tokens
    print(f"  done      {kept}" + (f" (dropped: {dropped})" if dropped else ""), file=sys.stderr)
    for place in outcome.bad_input:
        print(f"  bad       {place}", file=sys.stderr)
    if outcome.lines_dropped:
        print(f"  lines     dropped {outcome.lines_dropped:,} seen before", file=sys.stderr)
    print(
        f"  tokens    {outcome.train_tokens:,} train in {outcome.train_shards:,} shards, "
        f"{outcome.val_tokens:,} val in {outcome.val_shards:,}, {outcome.dtype}, "
        f"{human_bytes(tokens * size)}",
        file=sys.stderr,
    )
    for note in outcome.notes:
        print(f"  note      {note}", file=sys.stderr)
    if outcome.already_there:
        print(f"Nothing to write to {outcome.out_dir}", file=sys.stderr)
        return
    print(
        f"Wrote {outcome.out_dir}/dataset_metadata.json in {outcome.seconds:.1f} s "
        f"({human_rate(outcome.bytes_in, outcome.seconds)})",
        file=sys.stderr,
    )
