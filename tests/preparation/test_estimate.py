"""What --estimate expects is near what a preparation then makes."""

import gzip
import json

import pytest
from flat import estimate, prepare

from tokenmill.base.progress import Progress

MIB = 1 << 20


@pytest.mark.parametrize(("dedup", "compressed"), [("lines", False), ("none", True)])
def test_within_a_fifth(tmp_path, english, code, dedup, compressed):
    folder = tmp_path / "in"
    folder.mkdir()
    for number, text in enumerate([*english[:10], *code[:25]]):
        data = text.encode()
        if compressed:
            (folder / f"{number}.txt.gz").write_bytes(gzip.compress(data))
        else:
            (folder / f"{number}.txt").write_bytes(data)
    expected = estimate(folder, dedup=dedup, workers=1)
    made = prepare(folder, tmp_path / "out", dedup=dedup, workers=1)
    tokens = made.train_tokens + made.val_tokens
    assert 0.8 * tokens < expected.tokens < 1.2 * tokens
    assert expected.disk_bytes == 2 * expected.tokens + 8 * expected.documents
    assert expected.bytes_in == made.bytes_in


class Sizes(Progress):
    """Looks at the size of a folder after each task."""

    def __init__(self, folder):
        self.folder, self.most = folder, 0

    def follow(self, what, results, **options):
        for result in super().follow(what, results, **options):
            files = [path for path in self.folder.rglob("*") if path.is_file()]
            self.most = max(self.most, sum(path.stat().st_size for path in files))
            yield result


@pytest.mark.parametrize("dedup", ["lines", "documents", "none"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.txt"])
def test_the_room_that_is_needed_at_the_most(tmp_path, english, code, dedup, name):
    """Looked at after each task: of a unit the text is then gone, and all ids are there."""
    texts = [*english[:20], *code[:20]]
    lines = [json.dumps({"text": text}) for text in texts]
    data = "\n".join(texts if name == "a.txt" else lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    sizes = Sizes(tmp_path / "out")

    unit_bytes = len(data) // 20
    expected = estimate(tmp_path / name, dedup=dedup, workers=1)
    prepare(
        tmp_path / name,
        tmp_path / "out",
        dedup=dedup,
        workers=1,
        progress=sizes,
        unit_bytes=unit_bytes,
    )

    text = len(data) if dedup == "lines" else 0
    assert sizes.most / 1.15 < expected.peak_bytes < sizes.most * 1.15 + text / 2
    assert expected.peak_bytes > 1.8 * expected.disk_bytes


def test_of_a_large_file_only_pieces_are_read(tmp_path, code):
    text = "\n".join(code)[:500_000]
    (tmp_path / "a.txt").write_text(text * 40, "utf-8")
    expected = estimate(tmp_path / "a.txt", dedup="none", tokenizer="bytes", long_line=100_000)
    assert expected.bytes_sampled < 0.6 * expected.bytes_in
    assert 0.8 < expected.tokens / len((text * 40).encode()) < 1.2


def test_standard_input_cannot_be_read_twice():
    with pytest.raises(ValueError, match="only once"):
        estimate("-")


def test_an_eighth_is_read_of_some_megabytes(tmp_path):
    line = b"A line of words that a tokenizer takes apart.\n"
    (tmp_path / "a.txt").write_bytes(line * (16 * MIB // len(line)))

    expected = estimate(tmp_path / "a.txt", dedup="none", workers=1)

    assert 16 * MIB - len(line) <= expected.bytes_in <= 16 * MIB
    assert 2 * MIB <= expected.bytes_sampled <= 2 * MIB + 16 * len(line)
