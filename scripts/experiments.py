"""Train a list of settings one after the other; one table and one plot of their losses.

    python scripts/experiments.py                  # reads experiments.json
    python scripts/experiments.py my_list.json

The list is JSON: settings of `tokenmill train` that all runs share, and those of each run.

    {"common": {"dataset_dir": "data/corpus", "config_file": "configs/10M_256.json"},
     "runs": [{"model_name": "small"}, {"model_name": "wide", "n_embd": 320}]}

Stop it at any time: the same command resumes the run that was stopped, and runs that are complete
are not trained again. OUT_DIR/losses.md and OUT_DIR/losses.svg are written after each run.
"""

import json
import sys
from pathlib import Path

from tokenmill.base.atomic import write_atomically
from tokenmill.base.markup import Html, Plot, tag
from tokenmill.errors import TokenmillError
from tokenmill.train import train
from tokenmill.train.curve import STYLE, ticks
from tokenmill.train.metrics import points

PLOT = Plot(720, 400, left=64, right=180, top=32, bottom=48, label_gap=(10, 22))


def main(path: str = "experiments.json") -> None:
    """Train them all, those that were begun from where they were."""
    listed = json.loads(Path(path).read_text("utf-8"))
    common = {"out_dir": "runs/experiments", **listed["common"]}
    names = [run["model_name"] for run in listed["runs"]]
    if len(set(names)) < len(names):
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
    write_atomically(out_dir / "losses.svg", draw(curves).encode(), durable=False)


def draw(curves: dict[str, list[tuple[int, float]]]) -> str:
    """Loss over steps, one line and one colour a run."""
    steps = ticks(0, max(step for curve in curves.values() for step, _ in curve), whole=True)
    losses = [loss for curve in curves.values() for _, loss in curve]
    levels = ticks(min(losses), max(losses))
    low, height = levels[0], levels[-1] - levels[0]
    parts = [
        tag("style", Html(STYLE)),
        tag("rect", class_="paper", width=PLOT.width, height=PLOT.height, rx=8),
        PLOT.grid(((level - low) / height, f"{level:g}") for level in levels),
        PLOT.below((step / steps[-1], f"{step:,g}") for step in steps),
        PLOT.axis_name("step", PLOT.height - 8),
    ]
    for number, (name, curve) in enumerate(curves.items()):
        colour = f"hsl({number * 137 % 360} 65% 50%)"  # neighbours far apart on the circle
        places = [(step / steps[-1], (loss - low) / height) for step, loss in curve]
        line = f"M{PLOT.corners(places, ' L')}"
        parts.append(tag("path", d=line, style=f"stroke: {colour}; stroke-width: 2"))
        label = f"{name} {curve[-1][1]:.3f}"
        y = PLOT.top + 20 * number
        parts.append(tag("text", label, x=PLOT.width - 172, y=y, style=f"fill: {colour}"))
    size = {"width": PLOT.width, "height": PLOT.height, "xmlns": "http://www.w3.org/2000/svg"}
    return PLOT.svg(*parts, label="loss by step of each run", **size) + "\n"


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (TokenmillError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 1))
