"""Does training ever wait for data, and how much memory does it need? Mapped, and all in memory.

    python bench/train.py                           # 1 GB on disk, 5 GB of memory, minutes
    python bench/train.py --steps 20 --sizes 10000000  # to try it

Writes bench/results/train.json and the table in docs/guides/large.md.

A toy GPT is trained on 10, 100 and 500 million random tokens in two ways, with the same model, rows
and steps: by `tokenmill train`, which maps the file, and by the loop that many scripts have, which
reads all tokens into a tensor of int64 and cuts random windows out of it. And by `tokenmill train`
on 10 billion tokens (a sparse file), which no tensor holds. Printed for each: the share of the time
of all steps but the first spent waiting for data, and the memory of its own (RssAnon; the page
cache is the system's). The model is as small as they come, so its steps are short and the share is
the worst case.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import into_page
import numpy as np
from measure import machine, run

ROOT = Path(__file__).parents[1]
MILLION = 10**6
SIZES = (10 * MILLION, 100 * MILLION, 500 * MILLION)
SPARSE = 10**10
MOST_WAITING = 0.01
MOST_DIFFERENCE_MB = 50
UNCOUNTED = 10  # steps: threads and caches start
SETTINGS = {"vocab_size": 256, "n_layer": 2, "n_head": 2, "n_embd": 64, "block_size": 256}
ROWS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="tokens")
    parser.add_argument("--folder", help="where to put the files  [default: the system's]")
    parser.add_argument("--in_memory", help=argparse.SUPPRESS)  # run by this script itself
    options = parser.parse_args()
    if options.in_memory:
        print(json.dumps(train_in_memory(Path(options.in_memory), options.steps)))
        return
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for num_tokens in (*options.sizes, SPARSE):
            path = write_tokens(Path(name), num_tokens)
            ways = {"mapped": measure_mapped, "in memory": measure_in_memory}
            for way in ways if num_tokens != SPARSE else ["mapped"]:
                title = f"{num_tokens // MILLION:,} million tokens, {way}"
                results[title] = ways[way](path, options.steps)
                print(f"{title:32}  {describe(results[title])}", flush=True)
            path.unlink()
    kept = {"machine": machine(), "steps": options.steps, "runs": results}
    (ROOT / "bench" / "results" / "train.json").write_text(json.dumps(kept, indent=1) + "\n")
    into_page.put("large.md", "train.json", table_of(results))
    sys.exit(compare([result for title, result in results.items() if title.endswith("mapped")]))


def compare(mapped: list[dict[str, float]]) -> bool:
    """Print the bounds of the runs that map their tokens; return True if one is not kept."""
    memory = [result["own_memory_mb"] for result in mapped]
    waiting = max(result["data_wait"] for result in mapped)
    difference = max(memory) - min(memory)
    print(f"mapped: waiting for data at most {waiting:.3%} of a step (bound: {MOST_WAITING:.0%})")
    print(f"mapped: memory differs by {difference:.1f} MB (bound: {MOST_DIFFERENCE_MB} MB)")
    return waiting > MOST_WAITING or difference > MOST_DIFFERENCE_MB


def table_of(results: dict[str, dict[str, float]]) -> str:
    """Return the table of the page: for each size the mapped run, and the one in memory."""
    cells: dict[str, list[str]] = {}
    for title, of in results.items():
        cell = f"{of['data_wait']:.3%}, {of['own_memory_mb']:,.0f} MB"
        cells.setdefault(title.partition(" tokens, ")[0], []).append(cell)
    rows = ([size, *ways, *["-"] * (2 - len(ways))] for size, ways in cells.items())
    return into_page.table(["tokens", "mapped by tokenmill", "all in memory, as int64"], *rows)


def write_tokens(folder: Path, num_tokens: int) -> Path:
    """Write random ids; of a sparse file only the first million, the others are zeros."""
    path = folder / f"tokens_{num_tokens}.bin"
    draw = np.random.default_rng(0)
    written = MILLION if num_tokens == SPARSE else num_tokens
    with path.open("wb") as file:
        for start in range(0, written, MILLION):
            draw.integers(0, 256, min(MILLION, written - start), dtype=np.uint16).tofile(file)
        file.truncate(2 * num_tokens)
    return path


def measure_mapped(path: Path, steps: int) -> dict[str, float]:
    """Run `train.py`, as a user does."""
    folder = path.parent
    config = folder / "config.json"
    keys = {name: value for name, value in SETTINGS.items() if name.startswith("n_")}
    config.write_text(json.dumps({**keys, "log_interval": 1, "sample_tokens": 0}))
    flags = (
        f"--config_file {config} --train_data_path {path} --dtype uint16 --no_documents "
        f"--device cpu --out_dir {folder} --model_name run_{path.stem} --vocab_size 256 "
        f"--block_size {SETTINGS['block_size']} --batch_size {ROWS} --max_iters {steps} "
        f"--eval_interval {steps} --quiet"
    )
    command = [sys.executable, str(ROOT / "train.py"), *flags.split()]
    done = run(command, env={"PYTHONPATH": str(ROOT / "src")})
    lines = (folder / f"run_{path.stem}" / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "loss" in row]
    tokens = ROWS * SETTINGS["block_size"]
    seconds = [tokens / row["tokens_per_second"] for row in rows]
    waited = [row["data_wait"] * s for row, s in zip(rows, seconds, strict=True)]
    return {**shares(seconds, waited), "own_memory_mb": done.peak_mb}


def measure_in_memory(path: Path, steps: int) -> dict[str, float]:
    """Run the usual loop in a process of its own."""
    words = ["--in_memory", str(path), "--steps", str(steps)]
    command = [sys.executable, str(Path(__file__).resolve()), *words]
    done = run(command, env={"PYTHONPATH": str(ROOT / "src")})
    times = json.loads(done.output.splitlines()[-1])
    return {**shares(**times), "own_memory_mb": done.peak_mb}


def shares(seconds: list[float], waited: list[float]) -> dict[str, float]:
    """Return what is compared, from the seconds of each step and those of them spent waiting."""
    counted = slice(min(UNCOUNTED, len(seconds) - 1), None)
    return {
        "data_wait": sum(waited[counted]) / sum(seconds[counted]),
        "tokens_per_second": ROWS * SETTINGS["block_size"] / float(np.median(seconds[counted])),
    }


def train_in_memory(path: Path, steps: int) -> dict[str, list[float]]:
    """Train on a tensor of all tokens, with windows that begin at random places."""
    import time

    import torch

    from tokenmill.train.config import TrainConfig
    from tokenmill.train.model import GPT, make_optimizer

    config = TrainConfig(**SETTINGS)
    length = config.block_size
    tokens = torch.from_numpy(np.fromfile(path, np.uint16).astype(np.int64))
    model = GPT(config, 256)
    optimizer = make_optimizer(model, config, fused=False)
    seconds, waited = [], []
    for _ in range(steps):
        began = time.perf_counter()
        starts = torch.randint(len(tokens) - length, (ROWS,)).tolist()
        inputs = torch.stack([tokens[at : at + length] for at in starts])
        targets = torch.stack([tokens[at + 1 : at + length + 1] for at in starts])
        waited.append(time.perf_counter() - began)
        (model(inputs, targets) / inputs.numel()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds, "waited": waited}


def describe(result: dict[str, float]) -> str:
    return (
        f"waiting for data {result['data_wait']:.3%}, "
        f"own memory {result['own_memory_mb']:,.0f} MB, "
        f"{result['tokens_per_second']:,.0f} tokens/s"
    )


if __name__ == "__main__":
    main()
