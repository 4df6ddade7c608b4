"""What a selection from 10^8 made-up documents costs, made and opened again; and what facts cost.

The dataset has sparse shards, which take no room; its index of documents and its facts are real
(about 3.5 GB). A selection is made and its first batch read in one process, then again in another,
which finds it in the cache. DuckDB counts the same rows in the same run, with one thread. CPU
seconds are those of all threads; memory is the process's own (RssAnon), mapped files apart.
`--facts` prepares JSON lines with and without facts, in turn, and compares the times.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import xxhash
from measure import machine, run

from tokenmill.shards.card import write_tokenizer_and_card
from tokenmill.shards.facts_file import FactsFileWriter
from tokenmill.shards.manifest import (
    EndsEntry,
    Manifest,
    ShardEntry,
    SplitEntry,
    TokenizerEntry,
)
from tokenmill.tokens.load_tokenizer import load

RESULTS = Path(__file__).parent / "results" / "selection.json"
SHARDS = 100
TOKENS = 48  # of a document, on average
LANGUAGES = ["en", "de", "fr", "es", "ru", "zh", "ja", "pt"]
PREDICATES = {
    "half at random": "score > 0.5",
    "lang and score": "lang = 'en' AND score > 0.5",
    "neighbours": "row < 50000000",
}
OPEN = """
import sys, time, json
import tokenmill
began, cpu = time.perf_counter(), time.process_time()
data = tokenmill.open(sys.argv[1], where=sys.argv[2])
batch = next(iter(tokenmill.BatchLoader(data, batch_size=8, block_size=1024, seed=0)))
known = {"in_process": time.perf_counter() - began, "cpu_in_process": time.process_time() - cpu}
print(json.dumps({"documents": data.num_documents, **known}))
"""
DUCKDB = """
import sys, duckdb
duckdb.sql("SET threads = 1")
file = f"{sys.argv[1]}/train/documents.parquet"
print(duckdb.sql(f"SELECT count(*) FROM '{file}' WHERE {sys.argv[2]}"))
"""
PREPARE = """
import sys, json, tokenmill
from tokenmill.preparation import Details
keep, facts = json.loads(sys.argv[3])
details = Details(facts=facts)
tokenmill.prepare(sys.argv[1], sys.argv[2], workers=1, details=details, keep=keep)
"""


def make(folder: Path, num_documents: int) -> None:
    """A dataset with real ends and facts; its ids are holes."""
    chosen = np.random.default_rng(0)
    tokenizer = load("gpt2")
    state = orjson.dumps(tokenizer.state(), option=orjson.OPT_SORT_KEYS)
    (folder / "train").mkdir(parents=True)
    entries = []
    per_shard = num_documents // SHARDS
    languages = pa.array(LANGUAGES)
    kept = {"lang": pa.string(), "score": pa.float64()}
    with FactsFileWriter(folder, "train/documents.parquet", kept) as facts:
        for shard in range(SHARDS):
            ends = np.cumsum(chosen.integers(2, 2 * TOKENS - 1, per_shard)).astype("<u8")
            name, size = f"train/shard_{shard:05d}", int(ends[-1])
            with open(folder / f"{name}.bin", "wb") as file:
                file.truncate(2 * size)
            (folder / f"{name}.ends").write_bytes(ends.data)
            digest = xxhash.xxh3_128_hexdigest(ends.data)
            stated = EndsEntry(f"{name}.ends", per_shard, 8 * per_shard, digest)
            entries.append(ShardEntry(f"{name}.bin", size, 2 * size, f"{shard:032x}", stated))
            lang = pa.DictionaryArray.from_arrays(chosen.integers(0, 8, per_shard), languages)
            row = np.arange(shard * per_shard, (shard + 1) * per_shard) + 1
            ids = pa.py_buffer(chosen.bytes(16 * per_shard))
            columns = {
                "source": pa.repeat(pa.scalar("crawl.jsonl"), per_shard),
                "row": pa.array(row),
                "byte": pa.nulls(per_shard),
                "id": pa.Array.from_buffers(pa.binary(16), per_shard, [None, ids]),
                "lang": lang.cast(pa.string()),
                "score": pa.array(chosen.random(per_shard).round(3)),
            }
            facts.add(columns)
        entry = facts.finish()
    largest = max(shard.num_tokens for shard in entries)
    splits = {"train": SplitEntry.of(tuple(entries), entry)}
    manifest = Manifest("uint16", TokenizerEntry.of(tokenizer, state), largest, splits)
    write_tokenizer_and_card(folder, manifest, state, "bench/selection.py")
    manifest.write(folder)


def once(program: str, *arguments: str, cache: Path) -> dict[str, object]:
    done = run([sys.executable, "-c", program, *arguments], env={"XDG_CACHE_HOME": str(cache)})
    known = {"seconds": round(done.seconds, 2), "cpu_seconds": round(done.cpu_seconds, 2)}
    found = {**known, "own_memory_mb": round(done.peak_mb)}
    if program is OPEN:
        stated = json.loads(done.output.splitlines()[-1])
        found |= {name: round(value, 3) for name, value in stated.items()}
    return found


def selections(folder: Path, num_documents: int, repeats: int) -> dict[str, object]:
    data = folder / "data"
    make(data, num_documents)
    found: dict[str, object] = {"documents": num_documents}
    for name, where in PREDICATES.items():
        cache = folder / "cache"
        first = once(OPEN, str(data), where, cache=cache)
        again = [once(OPEN, str(data), where, cache=cache) for _ in range(repeats)]
        duckdb = once(DUCKDB, str(data), where, cache=cache)
        best = min(again, key=lambda known: known["cpu_in_process"])
        size = sum(path.stat().st_size for path in cache.rglob("*.selection"))
        found[name] = {"where": where, "chosen": first, "opened again": best, "DuckDB": duckdb,
                       "cache_mb": round(size / 1e6)}  # fmt: skip
        shutil.rmtree(cache)
        print(json.dumps(found[name], indent=1))
    return found


def cost_of_facts(folder: Path, megabytes: int, repeats: int) -> dict[str, object]:
    """Prepare the same rows without and with facts in turn; the best of each, in CPU time."""
    chosen = np.random.default_rng(1)
    words = [f"{chosen.integers(1 << 40):x}"[: chosen.integers(2, 9)] for _ in range(4000)]
    path = folder / "rows.jsonl"
    number, size = 0, 0
    with path.open("wb") as file:
        while size < megabytes << 20:
            text = " ".join(
                words[i] for i in chosen.zipf(1.3, int(chosen.integers(20, 400))) % 4000
            )
            url = f"https://example.org/{number}"
            size += file.write(
                orjson.dumps({"text": text, "url": url, "score": number % 7 / 7}) + b"\n"
            )
            number += 1
    kinds = {"none": (None, None), "origin": (None, True), "url and score": ("url,score", None)}
    cpu: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(repeats):
        for name, settings in kinds.items():
            out = folder / f"{turn}-{name.replace(' ', '-')}"
            done = run([sys.executable, "-c", PREPARE, str(path), str(out), json.dumps(settings)])
            cpu[name].append(done.cpu_seconds)
            if turn == 0 and any(settings):
                facts = sum(p.stat().st_size for p in out.glob("*/documents.parquet"))
                cpu[f"{name}, bytes per document"] = [facts / number]
            shutil.rmtree(out)
    best = {name: round(min(values), 2) for name, values in cpu.items()}
    pairs = zip(cpu["origin"], cpu["none"], strict=True)
    ratio = sorted(with_facts / without for with_facts, without in pairs)[repeats // 2]
    return {"documents": number, "megabytes": megabytes, "repeats": repeats, "cpu_seconds": best,
            "origin, median of ratios in turn": round(ratio, 3),
            "origin": round(best["origin"] / best["none"], 3)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10**8)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("selections", "facts"))
    options = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known["machine"] = machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only != "facts":
            known["selections"] = selections(folder, options.documents, options.repeats)
        if options.only != "selections":
            known["facts"] = cost_of_facts(folder, options.megabytes, options.repeats)
    RESULTS.write_text(json.dumps(known, indent=2) + "\n")


if __name__ == "__main__":
    main()
