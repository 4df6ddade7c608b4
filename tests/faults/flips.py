"""Change every byte of a dataset, cut every file, swap files: `verify` with `full` must notice."""

import json
import random
from pathlib import Path

from faults.tally import Tally
from small_corpus import files_of

import tokenmill
from tokenmill.errors import TokenmillError

CARD = "README.md"  # for people; nothing reads it


def flip_bytes(tally: Tally, scratch: Path, every: int) -> None:
    """Flip one bit of every `every`-th byte; all bits of all bytes of the manifest if that is 1."""
    folder = scratch / "flips"
    _make(folder, scratch / "flips.jsonl")
    files = {name: data for name, data in files_of(folder).items() if name != CARD}
    chance = random.Random(f"{tally.seed} flips")
    for name, data in files.items():
        for at in range(chance.randrange(every), len(data), every):
            whole = every == 1 and name.endswith(".json")
            for bit in range(8) if whole else [chance.randrange(8)]:
                changed = bytes([data[at] ^ 1 << bit])
                _expect(tally, folder, name, data[:at] + changed + data[at + 1 :], data, "flips")
    for name, data in files.items():
        for length in range(0, len(data), max(every, len(data) // 50 + 1)):
            _expect(tally, folder, name, data[:length], data, "cuts")
        _expect(tally, folder, name, data + b"\0", data, "one byte more")
    names = [name for name in files if name.endswith((".bin", ".ends"))]
    for name in names:
        other = chance.choice([each for each in names if files[each] != files[name]])
        _expect(tally, folder, name, files[other], files[name], "swaps")
    assert not _notices(folder)


def _make(folder: Path, text: Path) -> None:
    rows = [json.dumps({"text": f"document {n} of the mill " * (n % 7 + 1)}) for n in range(25)]
    text.write_text("\n".join(rows))
    tokenmill.prepare(text, folder, tokenizer="bytes", tokens_per_shard=900, workers=1)


def _expect(tally: Tally, folder: Path, name: str, changed: bytes, sound: bytes, kind: str) -> None:
    (folder / name).write_bytes(changed)
    kind_of_file = "manifest" if name == "dataset_metadata.json" else Path(name).suffix
    what = f"{kind}, {kind_of_file}"
    try:
        if _notices(folder):
            tally.add(what, "noticed")
        else:
            tally.fail(what, f"{name} with other bytes is called sound")
    except Exception as error:
        tally.fail(what, f"{name}: {error!r}")
    finally:
        (folder / name).write_bytes(sound)


def _notices(folder: Path) -> bool:
    try:
        return bool(tokenmill.verify(folder, full=True).damaged)
    except TokenmillError:
        return True
