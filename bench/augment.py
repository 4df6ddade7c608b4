"""Batches a second with each augmentation, as a ratio to none, in one run.

python bench/augment.py [--rounds 5] [--write]

Each way is timed in turns with the loader without augmentation on the same data; the best round of
each counts, since other work on the machine only slows. What is measured is the processor's time,
without prefetching: in training the prefetching thread spends it.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from measure import machine

import tokenmill
from tokenmill import BatchLoader
from tokenmill.augment import DropTokens, FillInTheMiddle, MaskTokens, ReplaceTokens
from tokenmill.batches.batch_form import BatchForm

SHAPE = {"batch_size": 64, "block_size": 1024}
FORM = BatchForm(prefetch=0)
SECONDS = 0.4
END, VOCAB = 50256, 50262
FIM = FillInTheMiddle(0.5, 0.5, prefix_id=50257, middle_id=50258, suffix_id=50259)
WAYS = {
    "none": None,
    "FillInTheMiddle(0.5)": [FIM],
    "MaskTokens(0.15)": [MaskTokens(0.15, mask_id=50260)],
    "ReplaceTokens(0.1)": [ReplaceTokens(0.1)],
    "DropTokens(0.1)": [DropTokens(0.1)],
    "FillInTheMiddle, DropTokens, ReplaceTokens": [FIM, DropTokens(0.1), ReplaceTokens(0.1)],
}


def dataset() -> tokenmill.TokenDataset:
    """20 million tokens in documents of about 700."""
    ids = np.random.default_rng(0).integers(0, END, 20_000_000).astype(np.uint16)
    ids[np.cumsum(np.random.default_rng(1).geometric(1 / 700, 27_000))] = END
    return tokenmill.from_array(ids, end_of_text=END, vocab_size=VOCAB)


def batches_a_second(loader: BatchLoader) -> float:
    next(loader)
    count = 0
    began = time.process_time()
    while (took := time.process_time() - began) < SECONDS:
        batch = next(loader)
        _ = batch.inputs, batch.labels if batch.augmented_labels is not None else batch.targets
        count += 1
    loader.close()
    return count / took


def ratios(data: tokenmill.TokenDataset, rows: str, rounds: int) -> dict[str, float]:
    """Batches a second of each way, divided by those without augmentation."""
    best = dict.fromkeys(WAYS, 0.0)
    for _ in range(rounds):
        for name, augment in WAYS.items():
            loader = BatchLoader(
                data, rows=rows, documents=True, augment=augment, form=FORM, **SHAPE
            )
            best[name] = max(best[name], batches_a_second(loader))
    tokens = best["none"] * SHAPE["batch_size"] * SHAPE["block_size"]
    print(f"{rows}: {tokens / 1e6:,.0f} million tokens a second without augmentation")
    return {name: round(speed / best["none"], 3) for name, speed in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="keep the result in results/")
    asked = parser.parse_args()
    data = dataset()
    kinds = {rows: ratios(data, rows, asked.rounds) for rows in ("windows", "packed")}
    result = {**SHAPE, "documents": True, "ratio_to_none": kinds, "machine": machine()}
    print(json.dumps(result, indent=2))
    if asked.write:
        path = Path(__file__).parent / "results" / "augment.json"
        path.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
