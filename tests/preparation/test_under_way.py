"""How far a unit is can be seen while it is read: also of a compressed file, which is one unit."""

import gzip
import json

import pytest
from flat import prepare

from tokenmill.base.progress import Progress
from tokenmill.preparation.pretokenize import pretokenize
from tokenmill.preparation.workspace.work_folder import WorkFolder
from tokenmill.text.reading.chunks import Chunk


class Watched(Progress):
    """Asks what is under way before each result is passed on."""

    def __init__(self):
        self.seen = {}

    def follow(self, what, results, *, under_way=lambda: 0, **options):
        for result in results:
            self.seen.setdefault(what, []).append(under_way())
            yield result


def test_each_chunk_is_noted_when_it_is_done(tmp_path):
    workspace = WorkFolder(tmp_path)
    workspace.root.mkdir()
    first = workspace.noting(0, [Chunk([], bytes_in=10), Chunk([], bytes_in=5)])
    third = WorkFolder(tmp_path).noting(2, [Chunk([], bytes_in=100)])

    assert workspace.bytes_noted(but=[]) == 0
    for chunks, expected in ((first, 0), (first, 10), (third, 10)):
        next(chunks)
        assert workspace.bytes_noted(but=[]) == expected
    assert [*first, *third] == []
    assert workspace.bytes_noted(but=[]) == 115
    assert workspace.bytes_noted(but=[0, 7]) == 100
    workspace.forget_noted()
    assert workspace.bytes_noted(but=[]) == 0


@pytest.mark.parametrize("kind", ["txt", "jsonl", "txt.gz", "jsonl.gz", "csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("tokenizer", ["bytes", "chars"])
def test_every_kind_of_input_in_every_stage_that_reads_it(tmp_path, kind, tokenizer):
    path = tmp_path / f"a.{kind}"
    texts = [f"This is line number {n} of a text." for n in range(1000)]
    if kind == "parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.table({"text": texts}), path)
    else:
        lines = ["text", *texts] if kind[:3] == "csv" else texts
        lines = [json.dumps({"text": text}) for text in texts] if "json" in kind else lines
        data = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    watched = Watched()

    settings = {"tokenizer": tokenizer, "dedup": "lines", "workers": 1}
    prepare(path, tmp_path / "out", progress=watched, **settings)

    stages = {"lines", "encode"} | ({"characters"} if tokenizer == "chars" else set())
    size = path.stat().st_size
    assert {stage: seen for stage, seen in watched.seen.items() if stage in stages} == {
        stage: [size] for stage in stages
    }
    assert not any(sum(seen) for stage, seen in watched.seen.items() if stage not in stages)


def test_one_text_that_becomes_one_array(tmp_path):
    (tmp_path / "a.txt").write_text("words " * 1000)
    watched = Watched()

    pretokenize([tmp_path / "a.txt"], tokenizer="bytes", progress=watched)

    assert watched.seen["encode"] == [6000]
