"""What the driver does alone for 300,000 units whose tasks are done: `finish`, and `status`.

The receipts are written as tasks write them, and the files of units are there, empty. `finish` is
run by one process, up to the commit: its tasks write 25,000 shards of no bytes the first time; the
second time nothing is missing. Then the same receipts are put into a bucket of a local S3 server
(moto), in objects of 1 MB, and `status` reads them there: its first stage has one task missing.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from measure import machine

from tokenmill.preparation import jobs, prepare
from tokenmill.preparation.planning.plan import load_plan
from tokenmill.preparation.stages import assemble
from tokenmill.preparation.stages.decide import load_layout
from tokenmill.preparation.workspace.receipt_log import log_line
from tokenmill.shards.manifest import EndsEntry, ShardEntry
from tokenmill.text.inputs import units

sys.path.append(str(Path(__file__).parents[1] / "tests" / "stores"))
import servers

RESULTS = Path(__file__).parent / "results" / "receipts.json"
UNIT, TOKENS, DOCUMENTS = 32 << 20, 8 << 20, 9000
VAL = TOKENS // 10
HASH = "0123456789abcdef" * 2
WRITERS = 64
LOG_BYTES = 1 << 20


def encoded(unit: int) -> dict[str, object]:
    names = (f"{unit}.0.tokens", f"{unit}.0.rows")
    counts = dict.fromkeys(("replaced", "lines_dropped", "literal_end_of_text"), 0)
    return {
        "parts": [
            {
                "files": [{"name": f"{unit}.0", "num_tokens": TOKENS}],
                "num_documents": DOCUMENTS,
            }
        ],
        "counts": {"bytes_in": UNIT, "characters": UNIT, "documents_in": DOCUMENTS, **counts},
        "dropped": {},
        "documents_by_source": [DOCUMENTS],
        "bad_input": [],
        "repeated_lines": [],
        "files": {name: [0, HASH] for name in names},
    }


def decided(_: int) -> dict[str, object]:
    documents = [DOCUMENTS - DOCUMENTS // 10, DOCUMENTS // 10, 0]
    return {"tokens": [TOKENS - VAL, VAL, 0], "documents": documents, "files": {}}


def empty_shard(out_dir: str, number: int):
    """In place of the task that writes a shard."""
    plan = load_plan(out_dir)
    shard = load_layout(out_dir).shards[number]
    ends = EndsEntry(shard.file.removesuffix(".bin") + ".ends", 1, 8, HASH)
    size = shard.stop - shard.start
    entry = ShardEntry(shard.file, size, 2 * size, HASH, ends)
    facts = {"split": shard.split, "cut_document": False, "entry": entry.to_json()}
    return plan.workspace.leave_receipt("shards", str(number), {}, facts)


def make(folder: Path, num_units: int) -> Path:
    """A plan of so many units, and the receipts of all that are encoded and decided."""
    (folder / "texts").mkdir()
    for number in range(1000):
        with open(folder / "texts" / f"{number:05d}.txt", "wb") as file:
            file.write(b"some text\n")
            file.truncate(num_units * UNIT // 1000)
    out = folder / "out"
    jobs.plan(str(folder / "texts"), out, tokens_per_shard=100_000_000)
    for stage, receipt in (("units", encoded), ("decisions", decided)):
        logs = out / ".preparation" / "receipts" / stage
        logs.mkdir(parents=True)
        (out / ".preparation" / stage).mkdir(exist_ok=True)
        for writer in range(WRITERS):
            with open(logs / f"{writer}-0.log", "wb") as log:
                for unit in range(writer, num_units, WRITERS):
                    log.write(b"\n%s\n" % log_line(str(unit), receipt(unit)))
                    for name in receipt(unit)["files"]:
                        (out / ".preparation" / stage / name).touch()
    return out


def run_finish(out: Path) -> dict[str, float]:
    """Run all but the commit."""
    cpu, began = time.process_time(), time.monotonic()
    with suppress(InterruptedError):
        jobs.finish(out, workers=1)
    return {
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "seconds": round(time.monotonic() - began, 1),
    }


def status_from_bucket(out: Path, folder: Path, num_units: int) -> dict[str, float]:
    """Put plan and receipts into a bucket; look how far it is."""
    from tokenmill.stores import objects

    server = servers.start("moto", folder)
    try:
        os.environ.update(server.variables())
        work = f"{server.make_bucket('bench')}/work"
        for name in ("plan.json", "tokenizer.json", "limits.json"):
            objects.put(f"{work}/{name}", (out / ".preparation" / name).read_bytes())
        data, number = bytearray(), 0
        for unit in range(num_units - 1):
            data += b"%s\n" % log_line(str(unit), encoded(unit))
            if len(data) >= LOG_BYTES or unit == num_units - 2:
                objects.put(f"{work}/receipts/units/{number:016x}.0.log", bytes(data))
                data, number = bytearray(), number + 1
        cpu, began = time.process_time(), time.monotonic()
        report = jobs.status(work)
        seconds = time.monotonic() - began
        assert report.missing == (num_units - 1,)
    finally:
        server.process.kill()
        server.process.wait()
    cpu = time.process_time() - cpu
    return {"objects": number, "cpu_seconds": round(cpu, 1), "seconds": round(seconds, 1)}


def stop(*_: object) -> None:
    raise InterruptedError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=300_000)
    options = parser.parse_args()
    units._MOST_UNITS = 1 << 30  # as many as were asked for
    prepare.limits.check_space = lambda plan: None  # no disk here has room for 10 TB
    prepare.limits.is_tight = lambda plan: False
    prepare.check_accounts = lambda plan, outcome: None  # empty shards have other documents
    prepare.commit = stop
    assemble.assemble_shard = empty_shard
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        out = make(folder, options.units)
        found = {
            "machine": machine(),
            "units": options.units,
            "finish, with tasks": run_finish(out),
            "finish": run_finish(out),
            "status from a bucket": status_from_bucket(out, folder, options.units),
        }
    print(json.dumps(found, indent=2))
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
