"""docs/reference/api.md is what the code says, and no public name is missing from it."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "make_api_page.py"))


def test_the_page_is_that_of_the_code():
    page = (ROOT / "docs" / "reference" / "api.md").read_text()

    assert page == SCRIPT["make_page"](), "run `make docs`"


def test_every_public_name_has_an_example_and_every_example_a_name():
    names = SCRIPT["public_names"]()
    without = {name for name in names if name not in SCRIPT["EXAMPLES"]}

    assert all(SCRIPT["is_error"](names[name]) for name in without)
    assert set(SCRIPT["EXAMPLES"]) <= set(names)


def test_every_public_name_says_what_it_is():
    for name, value in SCRIPT["public_names"]().items():
        assert len(SCRIPT["paragraph"](value)) > 12, name
