"""What --estimate expects is near what a preparation then makes."""

import gzip

import pytest

from tokenmill.preparation.budget.estimate import estimate
from tokenmill.preparation.prepare import prepare


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
    assert expected.disk_bytes == 2 * expected.tokens
    assert expected.bytes_in == made.bytes_in


def test_of_a_large_file_only_pieces_are_read(tmp_path, code):
    text = "\n".join(code)[:500_000]
    (tmp_path / "a.txt").write_text(text * 40, "utf-8")
    expected = estimate(tmp_path / "a.txt", dedup="none", tokenizer="bytes", long_line=100_000)
    assert expected.bytes_sampled < 0.6 * expected.bytes_in
    assert 0.8 < expected.tokens / len((text * 40).encode()) < 1.2


def test_standard_input_cannot_be_read_twice():
    with pytest.raises(ValueError, match="only once"):
        estimate("-")
