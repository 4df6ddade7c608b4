"""run.html has the frame and style of the other pages, and its labels fit on a phone."""

import itertools
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from tokenmill import BatchLoader, from_array
from tokenmill.edits import Add, Reweight, Skip
from tokenmill.pages.html import packaged_file
from tokenmill.train.run_page import make_run_page, trained_part

PHONE_LABEL = 18  # pixels of a picture of 520, in style.css
DIGIT = 0.6 * PHONE_LABEL  # no digit of the usual fonts is wider


def page_of(num_edits, end=400, loss=9.0):
    """The page of a run on two sources, with edits at neighbouring steps."""
    web, code = (from_array(np.arange(n, dtype=np.uint16)) for n in (9000, 5000))
    loader = BatchLoader(web, batch_size=8, block_size=16)
    loader.edit(Skip(steps=(40, 60)))
    loader.edit(Add("code", code, weights={"data": 3, "code": 1}), at=200)
    for step in range(201, 201 + num_edits):
        loader.edit(Reweight({"data": step, "code": 1}), at=step, note="<script>")
    loader.load_state_dict({**loader.state_dict(), "samples": 8 * end}, sources={"code": code})
    losses = {"training": [(step, loss / step) for step in range(1, end)], "val": [(0, loss)]}
    rows = [{"step": end - 1, "sample": "<b>words</b>"}]
    return make_run_page("a model", losses, rows, {"max_iters": end}, trained_part(loader))


def pictures(page):
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def extent(label):
    """The left and the right end of a label."""
    x, width = float(label.get("x")), DIGIT * len(label.text)
    kind = label.get("class")
    left = x - width if kind in ("tick left", "tick right") else x - width / 2
    return left, left + width


def test_it_has_the_style_of_the_other_pages_and_no_other():
    page = page_of(2)

    assert re.findall("<style>(.*?)</style>", page, re.DOTALL) == [
        packaged_file("style.css").decode()
    ]
    assert "style=" not in page  # the policy of the page allows no other
    assert "&lt;script&gt;" in page
    assert "&lt;b&gt;words" in page
    defined = packaged_file("style.css").decode()
    used = {name for names in re.findall(r'class="([^"]*)"', page) for name in names.split()}
    assert {name for name in used if f".{name}" not in defined} <= {"left", "right"}


@pytest.mark.parametrize(("end", "loss"), [(400, 9.0), (90_000, 0.125), (2_500_000, 1e-3)])
def test_no_label_is_cut_on_a_phone(end, loss):
    drawn = pictures(page_of(2, end, loss))

    assert len(drawn) == 4  # the curve, the sources, the shards of each
    for picture in drawn:
        assert picture.get("class") == "half"
        _, _, width, height = map(float, picture.get("viewBox").split())
        for label in picture.iter("text"):
            left, right = extent(label)
            assert left >= 0, label.text
            assert right <= width, label.text
            # Those at the left are centred on their y; others stand on it.
            above = PHONE_LABEL * (0.5 if label.get("class") == "tick left" else 0.75)
            assert above <= float(label.get("y")) <= height


@pytest.mark.parametrize("count", [0, 1, 5, 60])
def test_numbers_of_edits_that_are_close_to_each_other_are_one_label(count):
    _, sources, *_ = pictures(page_of(count))

    labels = [label for label in sources.iter("text") if label.get("class") == "edit-number"]
    ends = sorted(extent(label) for label in labels)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))
    named = []
    for label in labels:
        first, _, last = label.text.partition("-")
        named += range(int(first), int(last or first) + 1)
    assert named == list(range(1, count + 3))
    lines = [line for line in sources.iter("line") if line.get("class") == "edit"]
    assert len(lines) == count + 2


@pytest.mark.parametrize(("end", "stretches"), [(15, 1), (400, 25), (3000, 80)])
def test_shares_are_drawn_in_stretches_of_128_samples_or_80_of_them(end, stretches):
    """8 samples a step; two more edges are at the edits of steps 40 and 200."""
    _, sources, *_ = pictures(page_of(0, end))

    area = next(sources.iter("polygon")).get("points")
    edges = {corner.split(",")[0] for corner in area.split()}
    assert len(edges) == stretches + 1 + (0 if end < 40 else 2)
