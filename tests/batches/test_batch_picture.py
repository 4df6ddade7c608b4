"""The picture of a batch has the lengths of its documents, counted from its tokens."""

import re

import numpy as np

import tokenmill

LENGTHS = [5, 3, 9, 2, 3, 8, 1, 3]


def dataset():
    ids = np.concatenate([[*range(1, n), 0] for n in LENGTHS])
    ends = np.cumsum(LENGTHS)
    return tokenmill.from_array(ids.astype(np.uint16), document_ends=ends, end_of_text=0)


def parts(html):
    found = re.findall(r"<title>row (\d+), (.*?): ([\d,]+) tokens</title>", html)
    return [(int(row), name, int(count)) for row, name, count in found]


def test_packed_rows_have_a_part_for_each_document_and_for_padding():
    loader = tokenmill.BatchLoader(dataset(), rows="packed", batch_size=3, block_size=8)
    for _ in range(4):
        batch = next(loader)
        expected = []
        for number, row in enumerate(batch.segments[:, :-1].tolist()):
            for one in sorted(set(row), key=row.index):
                expected.append((number, "padding" if one < 0 else "source 0", row.count(one)))

        assert parts(batch._repr_html_()) == expected


def test_windows_have_a_part_a_row_and_the_colour_of_their_source():
    mixture = tokenmill.Mixture({"a": dataset(), "b": dataset()}, weights={"a": 1, "b": 1})
    batch = next(tokenmill.BatchLoader(mixture, batch_size=40, block_size=4))

    html = batch._repr_html_()
    shown = [(row, f"source {source}", 4) for row, source in enumerate(batch.sources[:32].tolist())]
    assert parts(html) == shown
    assert len(set(re.findall(r'fill="(#\w+)"', html))) == 2
    assert "40 rows of 4 tokens" in html
