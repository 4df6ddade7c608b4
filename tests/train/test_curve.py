"""The loss curve is a picture any browser shows, on light and dark pages."""

import itertools
import xml.etree.ElementTree as ElementTree

import pytest

from tokenmill.base.markup import ticks
from tokenmill.train.config import TrainConfig
from tokenmill.train.run_page import draw_losses
from tokenmill.train.run_record import RunRecord, points

SVG = "{http://www.w3.org/2000/svg}"


def coordinates(svg, kind):
    path = next(p for p in svg.iter(SVG + "path") if p.get("class") == kind and "L" in p.get("d"))
    return [tuple(map(float, xy.split(","))) for xy in path.get("d")[1:].split(" L")]


def test_a_falling_loss_falls_on_the_page():
    train = [(i, 10.0 / (1 + i)) for i in range(50)]

    svg = ElementTree.fromstring(
        draw_losses('a <run> & "more"', {"training": train, "val": [(0, 10.0), (49, 1.0)]})
    )

    corners = coordinates(svg, "curve p0")
    assert len(corners) == 50
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(corners))
    assert "prefers-color-scheme: dark" in svg.find(SVG + "style").text


def test_a_long_run_stays_a_small_file():
    text = draw_losses("long", {"training": [(i, 2.0) for i in range(200_000)]})

    assert len(text) < 60_000


@pytest.mark.parametrize("train", [[], [(1, 2.0)], [(1, 2.0), (2, 2.0)], [(1, float("nan"))]])
def test_short_and_flat_and_broken_curves_are_drawn_too(train):
    ElementTree.fromstring(draw_losses("x", {"training": train}))


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (2.1, 10.9), (3.31, 3.32), (0, 12_345), (0, 1e-6)]
)
def test_ticks_cover_the_range_in_round_steps(low, high):
    marks = ticks(low, high)

    assert marks[0] <= low
    assert marks[-1] >= high
    assert marks[-1] - marks[0] <= 2 * (high - low)
    assert 3 <= len(marks) <= 9


def test_metrics_after_the_step_of_a_resume_are_dropped(tmp_path):
    config = TrainConfig(out_dir=str(tmp_path.parent), model_name=tmp_path.name)
    path = tmp_path / "metrics.jsonl"
    first = RunRecord(config, is_main=True, from_step=0)
    for step in range(1, 6):
        first.log({"loss": step / 2}, step)
    first.close()
    with path.open("a") as file:
        file.write('{"step": 6, "lo')  # a kill in mid-line

    second = RunRecord(config, is_main=True, from_step=3)
    second.log({"loss": 9.0}, 4)
    second.close()

    assert points(path, "loss") == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 9.0)]
