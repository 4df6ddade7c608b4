"""A run that is killed five times and resumed on 1, 2 and 4 processes, and one that never stops.

    python bench/killed_run.py --corpus english.txt --seconds 3600   # both runs together, about
    python bench/killed_run.py --corpus english.txt --steps 60 --toy # to try it, in two minutes

A GPT is trained twice on the same English text with the same settings. The first run is left alone.
The second one is killed (SIGKILL, all its processes) when it has passed a sixth of the steps, two
sixths and so on, and each time resumed on another number of processes. Both loss curves are drawn
into docs/pictures/killed_run.svg, with a line at each kill. The largest differences of the losses
are kept in bench/results/killed_run.json, and written into docs/guides/training.md: they are those
of sums that are added up in another order on another number of processes. On one process nothing at
all differs.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import into_page
from measure import family, machine

from tokenmill.base.markup import number, tag, ticks
from tokenmill.train.run_page import LOSSES, draw_losses
from tokenmill.train.run_record import points

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "killed_run.svg"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
PROCESSES = (1, 2, 4, 2, 1, 4)  # of the run that is killed, from each kill to the next
MODEL = {"n_layer": 4, "n_head": 6, "n_embd": 192, "block_size": 256, "global_batch_size": 16}
TOY = {"n_layer": 2, "n_head": 2, "n_embd": 64, "block_size": 64, "global_batch_size": 8}
COMMON = {"learning_rate": 2e-3, "beta2": 0.99, "eval_batches": 20, "log_interval": 1}
TRIAL = 12  # steps whose time says how many there is time for
STYLE = (
    ".curve.p0 { stroke-width: 7; opacity: .45 } .curve.p1 { stroke-width: 1.4 } "
    ".kill { stroke: var(--p3); stroke-dasharray: 3 3 } .kill-words { fill: var(--p3); }"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="English text")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--steps", type=int, help="of each of the two runs")
    length.add_argument("--seconds", type=float, help="for both runs together, about")
    parser.add_argument("--toy", action="store_true", help="a model that trains in seconds")
    parser.add_argument("--folder", help="where to put data and runs  [default: the system's]")
    options = parser.parse_args()
    model = {**(TOY if options.toy else MODEL), **COMMON}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        prepare(options.corpus, folder)
        steps = options.steps or steps_in(options.seconds, folder, model)
        print(f"{steps:,} steps each", flush=True)
        train(folder, model, "whole", steps).wait()
        kills = train_with_kills(folder, model, steps)
        report(folder, kills, {"model": model, "steps": steps, "corpus": options.corpus.name})


def prepare(corpus: Path, folder: Path) -> None:
    """Train a tokenizer on the text, and prepare the text with it; a paragraph is a document."""
    trained = folder / "tokenizer"
    for words in (
        f"tokenizer train {corpus} -o {trained} --vocab_size 4096",
        f"prepare {corpus} -o {folder / 'data'} --tokenizer {trained} --document_is paragraph",
    ):
        # In a process of its own: next to this script, `tokenizers` is another benchmark.
        command = [sys.executable, "-m", "tokenmill", *words.split(), "--quiet"]
        subprocess.run(command, env=ENVIRONMENT, check=True)


def train(folder: Path, model: dict, name: str, steps: int, ranks: int = 1) -> subprocess.Popen:
    """Start or resume a run on so many processes; with all cores shared among them."""
    config = folder / f"{name}.json"
    every = max(1, steps // 30)
    config.write_text(json.dumps({**model, "eval_interval": every, "warmup_iters": steps // 20}))
    words = (
        f"--dataset_dir {folder / 'data'} --out_dir {folder} --model_name {name} --device cpu "
        f"--config_file {config} --max_iters {steps} --resume --quiet"
    ).split()
    torchrun = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--standalone"]
    program = [*(torchrun if ranks > 1 else []), str(ROOT / "train.py")]
    threads = max(1, len(os.sched_getaffinity(0)) // ranks)
    environ = {**ENVIRONMENT, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, *program, *words]
    quiet = subprocess.DEVNULL  # it prints a sample
    return subprocess.Popen(command, env=environ, start_new_session=True, stdout=quiet)


def steps_in(seconds: float, folder: Path, model: dict) -> int:
    """Return the steps of each run that this time has room for."""
    train(folder, model, "trial", TRIAL).wait()
    speeds = [speed for _, speed in points(folder / "trial" / "metrics.jsonl", "tokens_per_second")]
    tokens = model["global_batch_size"] * model["block_size"]
    # The second run starts six times and waits for its processes: a quarter more.
    return max(60, int(seconds / 2.5 * sorted(speeds)[len(speeds) // 2] / tokens))


def train_with_kills(folder: Path, model: dict, steps: int) -> list[int]:
    """Run to the end through all kills; return the last step before each."""
    metrics = folder / "killed" / "metrics.jsonl"
    kills = []
    for part, ranks in enumerate(PROCESSES, start=1):
        process = train(folder, model, "killed", steps, ranks)
        last = part == len(PROCESSES)
        while process.poll() is None and (last or last_step(metrics) < steps * part // 6):
            time.sleep(0.05)
        if not last:
            kill(process)
            kills.append(last_step(metrics))
            print(f"killed {ranks} processes after step {kills[-1]:,}", flush=True)
        elif process.returncode:
            raise RuntimeError(f"the last part ended with {process.returncode}")
    return kills


def kill(process: subprocess.Popen) -> None:
    """Kill a launcher and its ranks, which have sessions of their own and would train on."""
    for pid in family(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def last_step(metrics: Path) -> int:
    return max((step for step, _ in points(metrics, "loss")), default=0)


def report(folder: Path, kills: list[int], about: dict) -> None:
    """Print and keep the differences, and draw both curves."""
    differences = {}
    for name in ("loss", "val_loss"):
        whole, killed = (
            dict(points(folder / run / "metrics.jsonl", name)) for run in ("whole", "killed")
        )
        if whole.keys() != killed.keys():
            raise RuntimeError(f"the runs have other steps: {whole.keys() ^ killed.keys()}")
        differences[name] = max(abs(whole[step] - killed[step]) for step in whole)
        print(f"largest difference of {name}: {differences[name]:.2g}, over {len(whole):,} values")
    kept = {"machine": machine(), **about, "kills": kills, "processes": PROCESSES,
            "largest_difference": differences}  # fmt: skip
    (ROOT / "bench" / "results" / "killed_run.json").write_text(json.dumps(kept, indent=1) + "\n")
    PICTURE.write_text(draw(folder, kills))
    into_page.put("training.md", "killed_run.json", sentence(about, differences))
    print(f"wrote {PICTURE}")


def sentence(about: dict, differences: dict[str, float]) -> str:
    """Return what the page says about both runs."""
    model = about["model"]
    return (
        f"Over {about['steps']:,} steps of a GPT with {model['n_layer']} layers of width "
        f"{model['n_embd']} on a CPU, the largest difference of a training loss is "
        f"{differences['loss']:.6f}, of a validation loss {differences['val_loss']:.6f}."
    )


def draw(folder: Path, kills: list[int]) -> str:
    """Return the picture: one wide curve, one thin one on it, and a line at each kill."""
    curves = {
        "never stopped": points(folder / "whole" / "metrics.jsonl", "loss"),
        "killed five times": points(folder / "killed" / "metrics.jsonl", "loss"),
    }
    svg = draw_losses("Killed five times, on 1, 2 and 4 processes", curves)
    end = ticks(0, curves["never stopped"][-1][0], whole=True)[-1]
    bottom = int(svg.split('height="')[1].split('"')[0]) - LOSSES.bottom
    marks = []
    for left, right, ranks in zip([0, *kills], [*kills, end], PROCESSES, strict=True):
        x = number(LOSSES.x(right / end))
        if right != end:
            marks.append(tag("line", class_="kill", x1=x, x2=x, y1=bottom, y2=LOSSES.top + 56))
        middle = number(LOSSES.x((left + min(right, curves["never stopped"][-1][0])) / 2 / end))
        marks.append(tag("text", f"{ranks}", class_="tick kill-words", x=middle, y=bottom - 8))
    parts = "".join(map(str, marks))
    return svg.replace("</style>", f"{STYLE}</style>").replace("</svg>", f"{parts}</svg>")


if __name__ == "__main__":
    main()
