"""Does training ever wait for data, and how much memory does it need? A toy GPT on two datasets.

    python bench/train.py --steps 100         # writes bench/results/train.json

Two runs of `train.py` on random tokens, the same model and steps: one on 10 million tokens, one on
10 billion (a sparse file). Printed for each: the share of the time of a step spent waiting for
data, and the memory of its own (RssAnon; the page cache is the system's). The model is as small
as they come, so its steps are short and the share is the worst case.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import machine, run

ROOT = Path(__file__).parents[1]
SIZES = {"10 million tokens": 10**7, "10 billion tokens": 10**10}
MOST_WAITING = 0.01
MOST_DIFFERENCE_MB = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--folder", help="where to put the files  [default: the system's]")
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for title, num_tokens in SIZES.items():
            results[title] = measure(Path(name), num_tokens, options.steps)
            print(f"{title:18}  {describe(results[title])}", flush=True)
    small, large = (results[title]["own_memory_mb"] for title in SIZES)
    waiting = max(result["data_wait"] for result in results.values())
    print(f"waiting for data at most {waiting:.3%} of a step (bound: {MOST_WAITING:.0%})")
    print(f"difference in memory {abs(large - small):.1f} MB (bound: {MOST_DIFFERENCE_MB} MB)")
    kept = {"machine": machine(), "steps": options.steps, "runs": results}
    (ROOT / "bench" / "results" / "train.json").write_text(json.dumps(kept, indent=1) + "\n")
    sys.exit(waiting > MOST_WAITING or abs(large - small) > MOST_DIFFERENCE_MB)


def measure(folder: Path, num_tokens: int, steps: int) -> dict[str, float]:
    """One run: its peak memory, and its share of waiting over all steps except the first ten."""
    path = folder / f"tokens_{num_tokens}.bin"
    with path.open("wb") as file:
        file.truncate(2 * num_tokens)  # zeros that use no disk space
        file.seek(0)
        np.random.default_rng(0).integers(0, 256, 10**6, dtype=np.uint16).tofile(file)
    config = folder / "config.json"
    config.write_text(
        json.dumps(
            {
                "vocab_size": 256,
                "n_layer": 2,
                "n_head": 2,
                "n_embd": 64,
                "log_interval": 1,
                "sample_tokens": 0,
            }
        )
    )
    flags = (
        f"--config_file {config} --train_data_path {path} --dtype uint16 --no_documents "
        f"--device cpu --out_dir {folder} --model_name run_{num_tokens} --block_size 256 "
        f"--batch_size 16 --max_iters {steps} --eval_interval {steps} --quiet"
    )
    done = run(
        [sys.executable, str(ROOT / "train.py"), *flags.split()],
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    lines = (folder / f"run_{num_tokens}" / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "loss" in row][10:]
    seconds = [row["tokens_per_second"] ** -1 for row in rows]
    waited = sum(row["data_wait"] * s for row, s in zip(rows, seconds, strict=True))
    return {
        "data_wait": waited / sum(seconds),
        "own_memory_mb": done.peak_mb,
        "tokens_per_second": len(rows) / sum(seconds),
    }


def describe(result: dict[str, float]) -> str:
    return (
        f"waiting for data {result['data_wait']:.3%}, own memory {result['own_memory_mb']:.0f} MB, "
        f"{result['tokens_per_second']:,.0f} tokens/s"
    )


if __name__ == "__main__":
    main()
