"""Train a list of settings one after the other; one table and one plot of their losses.

    python scripts/experiments.py                  # reads experiments.json
    python scripts/experiments.py my_list.json

The list is JSON: settings of `tokenmill train` that all runs share, and those of each run, as in
scripts/experiments.json. Copy it, and name your data in it.

    {"common": {"dataset_dir": "data/corpus", "config_file": "configs/10M_256.json"},
     "runs": [{"model_name": "small"}, {"model_name": "wide", "n_embd": 320}]}

Stop it at any time: the same command resumes the run that was stopped, and runs that are complete
are not trained again. OUT_DIR/losses.md and OUT_DIR/losses.svg are written after each run.
"""

import json
import sys
from pathlib import Path

from tokenmill.base.atomic import write_atomically
from tokenmill.errors import TokenmillError
from tokenmill.train import train
from tokenmill.train.run_page import draw_losses
from tokenmill.train.run_record import points

EXAMPLE = Path(__file__).with_suffix(".json")


def main(path: str = "experiments.json") -> None:
    """Train them all, those that were begun from where they were."""
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"there is no list of runs {path} in {Path.cwd()}\n\n{__doc__}\nhint: cp {EXAMPLE} ."
        )
    listed = json.loads(Path(path).read_text("utf-8"))
    if not isinstance(listed, dict) or not listed.keys() >= {"common", "runs"}:
        raise ValueError(f'{path} has no "common" and "runs", as {EXAMPLE} has')
    common = {"out_dir": "runs/experiments", **listed["common"]}
    names = [run.get("model_name") for run in listed["runs"]]
    if len(set(names) - {None}) < len(names):
        raise ValueError(f"each run needs a model_name of its own; they are {names}")
    done: list[Path] = []
    for run in listed["runs"]:
        settings = {**common, **run}
        config_file = settings.pop("config_file", None)
        result = train(settings, config_file=config_file, resume=True)
        done.append(result.run_dir)
        write_losses(Path(common["out_dir"]), done)


def write_losses(out_dir: Path, runs: list[Path]) -> None:
    """The table and the plot; the table is printed as well."""
    lines = ["| run | steps | training loss | validation loss | best |", "|---|---|---|---|---|"]
    curves = {}
    for run in runs:
        losses = points(run / "metrics.jsonl", "loss")
        val = points(run / "metrics.jsonl", "val_loss")
        shown = f"{val[-1][1]:.4f} | {min(loss for _, loss in val):.4f}" if val else "- | -"
        lines.append(f"| {run.name} | {losses[-1][0]:,} | {losses[-1][1]:.4f} | {shown} |")
        curves[run.name] = val or losses
    table = "\n".join(lines) + "\n"
    print(table)
    write_atomically(out_dir / "losses.md", table.encode(), durable=False)
    write_atomically(out_dir / "losses.svg", draw_losses("loss", curves).encode(), durable=False)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (TokenmillError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 1))
