"""Datasets of which something is forgotten, and plain copies of what was in them."""

import json

import numpy as np
import pytest

import tokenmill
from tokenmill import BatchLoader

END = 256  # of the tokenizer of bytes
SECRETS = "k BETWEEN 100 AND 103 OR k = 150"


def write_texts(folder, count=300):
    """Documents with facts; five of them hold a text that nothing else has."""
    rows = [
        {"text": f"Page {n} of the crawl {n * 7919}. " + "ab" * (n % 23), "k": n, "url": f"u{n}"}
        for n in range(count)
    ]
    for n in (100, 101, 102, 103, 150):
        rows[n]["text"] = f"SECRET {n} " + f"{n * 104729:x}" * 12
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "texts.jsonl"


def prepare(folder, name="data", **more):
    """Prepare these texts; the numbers of documents in the input are facts."""
    options = {"tokenizer": "bytes", "keep": "k,url", "tokens_per_shard": 3000, "workers": 1}
    tokenmill.prepare(folder / "texts.jsonl", folder / name, **{**options, **more})
    return folder / name


@pytest.fixture(params=["plain", "compressed"])
def dataset(request, tmp_path, monkeypatch):
    """A dataset with a validation split, and a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_texts(tmp_path)
    compress = "zstd:1" if request.param == "compressed" else None
    return prepare(tmp_path, compress=compress, val_fraction=0.2)


def arrays(folder):
    """All that a dataset holds, as plain arrays and rows, by split."""
    found = {}
    for split in ("train", "val"):
        data = tokenmill.open(folder, split)
        starts = [data.document_range(i) for i in range(data.num_documents)]
        rows = data.facts(["k", "url", "source", "id"]).to_pylist() if data.has_facts else []
        columns = {name: data.column(name, 0, len(data)) for name in data.columns}
        found[split] = {"ids": data[:], "ranges": starts, "facts": rows, "columns": columns}
    return found


def forgotten_by_hand(before, is_meant):
    """The same arrays with these documents overwritten, one by one."""
    for split in before.values():
        ids, columns = split["ids"], split["columns"]
        columns.setdefault("loss", np.ones(len(ids), bool))
        for number, (start, stop) in enumerate(split["ranges"]):
            if is_meant(split["facts"][number]):
                ids[start:stop] = END
                for values in columns.values():
                    values[start:stop] = 0
                row = split["facts"][number]
                split["facts"][number] = dict.fromkeys(row) | {"id": row["id"]}
    return before


def is_secret(row):
    """The oracle of SECRETS."""
    return row["k"] in (100, 101, 102, 103, 150)


def batches(data, count=12, **options):
    """Plain copies of some batches: tokens, and labels."""
    options = {"batch_size": 4, "block_size": 48, "seed": 3, **options}
    loader = BatchLoader(data, **options)
    found = []
    for _ in range(count):
        batch = next(loader)
        found.append((batch.tokens.copy(), np.array(batch.labels)))
    loader.close()
    return found
