"""How much memory and time it takes until batches come: mapped, or all tokens loaded first.

    python bench/memory.py         # 1 GB on disk, 5 GB of memory

Writes bench/results/memory.json and the table in docs/guides/large.md.

One file of random ids for each size, each way in a process of its own: `tokenmill.open` and 200
shuffled batches of 8 rows with 1024 tokens; the same number of batches from `np.fromfile`, and from
that as int64, which is what loops that call `torch.tensor` on all tokens hold. Own memory is
RssAnon; pages of the mapped file (RssFile) are the system's cache, which it takes back when it
needs them.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import into_page
import numpy as np
from measure import machine

ROOT = Path(__file__).parents[1]
SIZES = {"10 M tokens": 10**7, "100 M tokens": 10**8, "500 M tokens": 5 * 10**8}
MEMORY = """
import re, time
def memory():
    text = open("/proc/self/status").read()
    found = [re.search(rf"{name}:\\s+(\\d+)", text) for name in ("RssAnon", "RssFile")]
    return [int(each[1]) / 1024 for each in found]
"""
LOADED = """
import numpy as np
anon, file = memory(); began = time.perf_counter()
tokens = np.fromfile(path, np.uint16){wide}
draw = np.random.default_rng(0)
def batch():
    starts = draw.integers(0, len(tokens) - 1024, 8)
    return np.stack([tokens[s : s + 1025].astype(np.int64) for s in starts])
"""
MAPPED = """
import numpy as np, tokenmill
from tokenmill.batches import loader
anon, file = memory(); began = time.perf_counter()
loader = tokenmill.BatchLoader(tokenmill.open(path, dtype="uint16"), batch_size=8, block_size=1024)
batch = loader.__next__
"""
REPORT = """
batch(); first = time.perf_counter() - began
for _ in range(199):
    batch()
anon_now, file_now = memory()
import json
print(json.dumps({"own_mb": anon_now - anon, "mapped_mb": file_now - file, "first_s": first}))
"""
HEAD = [
    "tokens",
    "own (`RssAnon`)",
    "mapped (`RssFile`)",
    "`np.fromfile`",
    "as int64",
    "first batch: mapped, int64",
]
WAYS = {
    "tokenmill": MAPPED,
    "np.fromfile": LOADED.format(wide=""),
    "np.fromfile, as int64": LOADED.format(wide=".astype(np.int64)"),
}


def main() -> None:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.bin"
        for title, count in SIZES.items():
            np.random.default_rng(0).integers(0, 50_000, count, dtype=np.uint16).tofile(path)
            results[title] = {way: measure(path, code) for way, code in WAYS.items()}
            for way, result in results[title].items():
                shown = "  ".join(f"{name} {value:,.2f}" for name, value in result.items())
                print(f"{title:14} {way:22} {shown}", flush=True)
    kept = {"machine": machine(), "runs": results}
    (ROOT / "bench" / "results" / "memory.json").write_text(json.dumps(kept, indent=1) + "\n")
    into_page.put("large.md", "memory.json", table_of(results))


def table_of(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the table of the page: for each size memory, and the time to the first batch."""
    rows = []
    for title, ways in results.items():
        ours, loaded, wide = ways.values()
        sizes = [ours["own_mb"], ours["mapped_mb"], loaded["own_mb"], wide["own_mb"]]
        times = f"{ours['first_s']:.2f} s, {wide['first_s']:.2f} s"
        rows.append([title.removesuffix(" tokens"), *(f"{size:,.0f}" for size in sizes), times])
    return into_page.table(HEAD, *rows)


def measure(path: Path, code: str) -> dict[str, float]:
    """Return what one way needs, in a fresh process; imports are not counted."""
    program = f"path = {str(path)!r}\n{MEMORY}{code}{REPORT}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
