"""The list of defects that `make mutants` puts into the code is of the code as it is."""

import ast

import pytest
from mutants.mutate import EQUAL, ROOT, draw, named


def test_there_are_enough():
    assert len(named()) >= 25


@pytest.mark.parametrize("defect", named(), ids=lambda defect: defect.path)
def test_the_text_of_a_named_defect_is_there_once(defect):
    assert (ROOT / defect.path).read_text().count(defect.old) == 1
    assert defect.old != defect.new


def test_drawn_defects_are_other_programs(tmp_path):
    for defect in draw(60, seed=3):
        path = tmp_path / defect.path
        path.parent.mkdir(parents=True, exist_ok=True)
        before = (ROOT / defect.path).read_text()
        path.write_text(before)

        defect.apply(tmp_path)

        assert ast.dump(ast.parse(path.read_text())) != ast.dump(ast.parse(before))


def test_drawing_depends_on_the_seed_alone():
    assert draw(30, seed=5) == draw(30, seed=5) != draw(30, seed=6)


def test_what_is_called_equal_has_a_reason():
    assert all(len(reason) > 20 for reason in EQUAL.values())


def test_the_page_of_promises_says_how_many_are_chosen_by_hand():
    page = (ROOT / "docs" / "design" / "promises.md").read_text(encoding="utf-8")

    assert f"each of {len(named())} defects chosen by hand" in page
