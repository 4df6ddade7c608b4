"""From text to a trained model in two minutes, without a network: `make demo`.

Python's own standard library is the corpus: some 12 MB of source text that is on every machine
with Python. It becomes a dataset, is read again and compared, served as batches, trains a small
GPT for about a minute on the CPU, and the GPT writes a few lines of its own.
"""

import shutil
import sys
import sysconfig
import time
from pathlib import Path

import tokenmill
from tokenmill.shards.verify import verify

HERE = Path("demo")
# Folders beside the library proper: installed packages, and tests, which are half of its bytes.
NOT_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


def main() -> None:
    """Run the four stages, and print what each did."""
    shutil.rmtree(HERE, ignore_errors=True)
    stage("1. Prepare: text files become token shards")
    files = library_files()
    began = time.perf_counter()
    summary = tokenmill.prepare(files, HERE / "data", tokenizer="gpt2", dedup="documents",
                                on_bad_input="skip", tokens_per_shard=1_000_000)  # fmt: skip
    say(
        f"{len(files):,} files, {summary.bytes_in / 1e6:.1f} MB, in "
        f"{time.perf_counter() - began:.1f} s: {summary.train_tokens:,} tokens to train on in "
        f"{summary.train_shards} shards, {summary.val_tokens:,} held out"
    )
    say(f"left out: {summary.dropped or 'nothing'}")

    stage("2. Verify: every byte read again and compared with the manifest")
    findings = [f for f in verify(HERE / "data", full=True) if f.is_error]
    say("all shards are as they were written" if not findings else "\n".join(map(str, findings)))
    if findings:
        sys.exit(12)

    stage("3. Load: shuffled batches, and a position that is a few numbers")
    data = tokenmill.open(HERE / "data")
    loader = tokenmill.BatchLoader(data, batch_size=64, block_size=256, seed=0)
    began = time.perf_counter()
    for _ in range(200):
        batch = next(loader)
    rate = 200 * batch.inputs.size / (time.perf_counter() - began)
    loader.close()
    say(f"{rate / 1e6:,.0f} million tokens a second; {batch.inputs.shape} {batch.inputs.dtype}")
    place = loader.locate(199, 0)
    say(f"the first row of step 199 is from {place.file}, document {place.document}, and begins:")
    say(f"    {data.decode(batch.inputs[0, :16])!r}")
    say(f"state: samples={loader.state_dict()['samples']:,} of order "
        f"{loader.state_dict()['order_fingerprint']}")  # fmt: skip

    stage("4. Train a small GPT, about a minute")
    train_and_sample()


def train_and_sample() -> None:
    """The part that needs torch."""
    try:
        from tokenmill.train import sample, train
        from tokenmill.train.run_record import points
    except ImportError:
        say('torch is not installed; pip install "tokenmill[torch]" to see this part')
        return
    config_file = Path(__file__).parents[1] / "configs" / "toy_cpu.json"
    result = train(
        {"dataset_dir": str(HERE / "data"), "model_name": "demo", "out_dir": str(HERE / "runs"),
         "device": "cpu"},
        config_file=str(config_file),
    )  # fmt: skip
    curve = points(result.run_dir / "metrics.jsonl", "val_loss")
    say("validation loss: " + "  ".join(f"step {step}: {loss:.2f}" for step, loss in curve))
    say(f"waiting for data: {result.data_wait:.2%} of the time; curve: {result.run_dir}/loss.svg")
    say("the model writes:")
    text = sample(result.run_dir, "def main(", max_new_tokens=60, temperature=0.7, device="cpu")
    say("\n".join("    " + line for line in text.splitlines()))
    say(f"more of it: tokenmill sample {result.run_dir} --prompt 'import '")


def library_files() -> list[Path]:
    """The .py files of the running Python's standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    return sorted(
        path for path in root.rglob("*.py") if not NOT_LIBRARY & set(path.relative_to(root).parts)
    )


def stage(title: str) -> None:
    """A heading."""
    print(f"\n{title}", flush=True)


def say(text: str) -> None:
    """A line of what happened."""
    print("".join(c for c in f"   {text}" if c.isprintable() or c == "\n"), flush=True)


if __name__ == "__main__":
    main()
