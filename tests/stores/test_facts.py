"""Facts go to a bucket and come from there, and so does a selection of the dataset."""

import json

import flat
import numpy as np
from small_corpus import files_of
from stores.servers import objects_of

import tokenmill


def test_facts_in_a_bucket(bucket, tmp_path):
    for name, first in (("a", 0), ("b", 300)):
        rows = (
            {"text": f"Page {n}.", "lang": ["en", "de"][n % 2]} for n in range(first, first + 300)
        )
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    here, there = tmp_path / "here", f"{bucket}/data"
    settings = {"tokenizer": "bytes", "keep": "lang", "workers": 1}
    for out, more in ((here, {}), (there, {"work_dir": tmp_path / "work"})):
        flat.prepare(tmp_path / "a.jsonl", out, **settings, **more)
        flat.prepare(tmp_path / "b.jsonl", out, append=True, workers=1, **more)

    found = objects_of(there)
    for name, data in files_of(here).items():
        assert found[name] == data
    chosen = [tokenmill.open(where, where="lang = 'en'") for where in (str(here), there)]
    assert np.array_equal(chosen[0][:], chosen[1][:])
    assert chosen[0].fingerprint == chosen[1].fingerprint
    assert chosen[0].facts().equals(chosen[1].facts())
    batches = [tokenmill.BatchLoader(data, batch_size=4, block_size=32).batch(3) for data in chosen]
    assert np.array_equal(batches[0].tokens, batches[1].tokens)
    assert tokenmill.verify(there, full=True).damaged == []
