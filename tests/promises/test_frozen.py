"""Promise: the same seed serves the same batches, and the same text becomes the same tokens.

frozen_cases.py says what each case is, and what a changed hash would mean to users.
"""

import json

import pytest
from promises.frozen_cases import FROZEN, TABLES, Shelf, run_case

CASES = [(table, name) for table, cases in TABLES.items() for name in cases]


def known(table):
    return json.loads((FROZEN / f"{table}.json").read_text())


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    shelf = Shelf(tmp_path_factory.mktemp("frozen"))
    yield shelf
    shelf.close()


@pytest.mark.parametrize("table", TABLES)
def test_every_case_has_a_hash_and_every_hash_a_case(table):
    assert sorted(known(table)) == sorted(TABLES[table])


@pytest.mark.parametrize(("table", "name"), CASES, ids=[name for _, name in CASES])
def test_it_is_as_it_was(shelf, table, name):
    assert run_case(TABLES[table][name], shelf) == known(table)[name]
