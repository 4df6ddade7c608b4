"""The rows that `where` chooses are those that DuckDB chooses."""

import contextlib
import datetime
import os
import random
import string

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tokenmill
from tokenmill.reading.selected_reader import masks_of
from tokenmill.reading.where import Where

NUM_ROWS = 300
NUM_PREDICATES = int(os.environ.get("TOKENMILL_PREDICATES", "600"))
TEXTS = [
    "",
    "en",
    "de",
    "EN",
    "a\\b",
    "a%b",
    "a_b",
    "l'eau",
    "\u00e9t\u00e9",
    "new\nline",
    "https://x/1",
]

COMPARISONS = ["=", "==", "<>", "!=", "<", "<=", ">", ">="]


def made_up(seed):
    chosen = random.Random(seed)

    def column(*values):
        return [chosen.choice([None, *values]) for _ in range(NUM_ROWS)]

    day = datetime.date(2024, 2, 29)
    moment = datetime.datetime(2024, 2, 29, 12, 30)
    return pa.table(
        {
            "lang": column(*TEXTS),
            "a url": column(*("".join(chosen.choices("ab%_/:", k=4)) for _ in range(40))),
            "score": pa.array(column(0.0, -0.0, 0.5, -2.0, 1e300, float("inf"), float("nan"))),
            "half": pa.array(column(0.25, 0.5, 1.0), pa.float32()),
            "n": column(0, 1, -1, 7, 1 << 40),
            "small": pa.array(column(0, 1, 100), pa.uint8()),
            "flag": column(True, False),
            "day": column(day, day + datetime.timedelta(3)),
            "moment": pa.array(column(moment), pa.timestamp("us")),
        }
    )


class Made:
    """A predicate of random words."""

    def __init__(self, chosen):
        self.chosen = chosen

    def text(self):
        value = self.chosen.choice([*TEXTS, "".join(self.chosen.choices("ab%_/:", k=2))])
        return "'" + value.replace("'", "''") + "'"

    def value(self, column):
        number = str(self.chosen.choice([0, 1, -1, 7, 0.5, 0.1, -2, "1e300", ".5", "2.", 1 << 40]))
        day = self.chosen.choice(["'2024-02-29'", "'2024-03-01'"])
        kinds = {
            "lang": self.text(),
            '"a url"': self.text(),
            "flag": self.chosen.choice(["TRUE", "false"]),
        }
        return kinds.get(column, day if column in ("day", "moment") else number)

    def leaf(self):
        names = ["lang", '"a url"', "score", "half", "n", "small", "flag", "day", "moment"]
        column = self.chosen.choice(names)
        value = lambda: self.value(column)  # noqa: E731
        no = self.chosen.choice(["", "NOT ", "not "])
        forms = [
            f"{column} {self.chosen.choice(COMPARISONS)} {value()}",
            f"{value()} {self.chosen.choice(COMPARISONS)} {column}",
            f"{column} {no}IN ({', '.join(value() for _ in range(self.chosen.randint(1, 4)))})",
            f"{column} {no}BETWEEN {value()} AND {value()}",
            f"{column} is {no}NULL",
        ]
        if column in ("lang", '"a url"'):
            likes = f"{column} {no}{self.chosen.choice(['LIKE', 'ILIKE'])} "
            pattern = "".join(self.chosen.choices("aben%_\\/", k=self.chosen.randint(0, 4)))
            forms += [f"{likes}'{pattern}'"] * 2
        if column == "flag":
            forms.append("flag")
        return self.chosen.choice(forms)

    def predicate(self, depth=0):
        form = self.chosen.randrange(7 if depth < 4 else 1)
        if form < 2:
            return self.leaf()
        if form == 2:
            return f"NOT ({self.predicate(depth + 1)})"
        if form == 3:
            return f"({self.predicate(depth + 1)})"
        joined = [self.predicate(depth + 1) for _ in range(self.chosen.randint(2, 3))]
        return self.chosen.choice([" AND ", " or "]).join(joined)


def test_the_rows_are_those_of_duckdb(tmp_path):
    """Some rows at a time, with texts as they are stored; DuckDB has the whole file at once."""
    made = Made(random.Random(1))
    at_once = 100
    for seed in range(NUM_PREDICATES // at_once):
        rows = made_up(seed).to_pylist()
        documents = [{"ids": [1], "facts": row} for row in rows]
        tokenmill.write_tokens(documents, tmp_path / str(seed), end_of_text_id=0)
        data = tokenmill.open(tmp_path / str(seed))
        predicates = [made.predicate() for _ in range(at_once)]
        asked = ", ".join(f"coalesce(({each}), false)" for each in predicates)
        file = f"{tmp_path}/{seed}/train/documents.parquet"
        theirs = duckdb.sql(f"SELECT {asked} FROM '{file}'").fetchnumpy()
        for predicate, expected in zip(predicates, theirs.values(), strict=True):
            assert np.array_equal(np.concatenate([*masks_of(data, predicate)]), expected), predicate


def test_an_id_is_compared_as_hex(tmp_path):
    documents = [{"ids": [n], "facts": {"n": n}} for n in (1, 2, 3)]
    tokenmill.write_tokens(documents, tmp_path / "d", end_of_text_id=0)
    data = tokenmill.open(tmp_path / "d")
    number = data.facts_of(1)["id"]

    assert data.facts(["n"], where=f"id = '{number}' OR ID IS NULL")["n"].to_pylist() == [2]
    assert data.facts(["n"], where=f"id <> '{number}' AND N < 3")["n"].to_pylist() == [1]


SCHEMA = pa.schema([("lang", pa.string()), ("score", pa.float64()), ("flag", pa.bool_())])


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "at character 1: it is not one condition"),
        ("lang", "it is VARCHAR, not a condition"),
        ("lang = en", "at character 8: there is no column 'en'"),
        ("lang = 'en", "at character 8: unterminated"),
        ("lng = 'en'", "at character 1: there is no column 'lng'.*did you mean 'lang'"),
        ("lang = 'en' score = 1", "at character 13: syntax error"),
        ("score = 'high'", "at character 9: .*Could not convert string 'high' to DOUBLE"),
        ("lang < 5", "at character .*Cannot compare values of type VARCHAR"),
        ("(flag", "at character 7: syntax error"),
        ("score LIKE 'a'", "at character 7: "),
        ("lang = 'a'; DROP TABLE x", "at character 11: syntax error"),
        ("flag), (flag", "it is not one condition"),
        ("1=1 UNION SELECT true", "at character 5: syntax error"),
        ("length(lang) > 3", "at character 1: there are no functions here"),
        ("score > random()", "at character 9: there are no functions here"),
        ("score > avg(score)", "at character 9: there are no functions here"),
        ("flag AND current_date > '2020-01-01'", "at character 10: there is no column"),
        ("lang IN (SELECT lang FROM 'a.parquet')", "no SUBQUERY"),
        ("row_number() OVER () < 3", "no WINDOW"),
        ("lang = ?", "no PARAMETER"),
        ("(" * 2000 + "flag" + ")" * 2000, ".*depth limit"),
    ],
)
def test_sql_that_is_wrong_is_named_with_its_place(sql, message):
    with pytest.raises(ValueError, match=f"where: (at character .*)?{message}"):
        Where(sql, SCHEMA)


def test_no_text_is_anything_but_an_expression_or_a_named_error():
    chosen = random.Random(2)
    pieces = [*"()=<>,'\"", "lang", "score", "flag", " AND ", " NOT ", "NULL", "'x'", "0.5", " IN "]
    for _ in range(1000):
        sql = "".join(chosen.choices([*pieces, *string.printable], k=chosen.randint(0, 9)))
        with contextlib.suppress(ValueError):
            Where(sql, SCHEMA)
