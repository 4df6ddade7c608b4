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

from tokenmill.reading.where import Where

NUM_ROWS = 300
NUM_PREDICATES = int(os.environ.get("TOKENMILL_PREDICATES", "2000"))
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
            "lang": pa.array(column(*TEXTS)).dictionary_encode() if seed % 2 else column(*TEXTS),
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


def test_the_rows_are_those_of_duckdb():
    made = Made(random.Random(1))
    at_once = 100
    connection = duckdb.connect()
    for seed in range(NUM_PREDICATES // at_once):
        table = made_up(seed)
        predicates = [made.predicate() for _ in range(at_once)]
        asked = ", ".join(f"coalesce(({each}), false)" for each in predicates)
        connection.register("facts", table)
        theirs = connection.execute(f"SELECT {asked} FROM facts").fetchnumpy()
        plain = pa.schema(
            [(f.name, pa.string() if f.name == "lang" else f.type) for f in table.schema]
        )
        (batch,) = table.combine_chunks().to_batches()
        for predicate, expected in zip(predicates, theirs.values(), strict=True):
            found = np.asarray(Where(predicate, plain).mask(batch))
            assert np.array_equal(found, np.asarray(expected)), predicate


SCHEMA = pa.schema([("lang", pa.string()), ("score", pa.float64()), ("flag", pa.bool_())])


@pytest.mark.parametrize(
    ("sql", "at", "message"),
    [
        ("", 1, "expected the name of a column"),
        ("lang", 5, "expected a comparison, such as = or IN, after lang"),
        ("lang = en", 8, "expected a value; is en text\\? write 'en'"),
        ("lang = 'en", 8, "this cannot be read"),
        ("lng = 'en'", 1, "there is no column 'lng'.*did you mean 'lang'"),
        ("lang = 'en' and", 16, "expected the name of a column"),
        ("lang = 'en' score = 1", 13, "expected AND, OR or the end"),
        ("score = 'high'", 9, "score is double, and 'high' is not of that kind"),
        ("lang < 5", 8, "lang is string, and 5 is not of that kind"),
        ("flag = 1", 8, "flag is bool, and 1 is not of that kind"),
        ("lang = NULL", 8, "NULL equals nothing"),
        ("score NOT 5", 11, "expected IN, BETWEEN or LIKE"),
        ("lang IN 'en'", 9, r"expected \("),
        ("lang IN ('en'", 14, r"expected , or \)"),
        ("(flag", 6, r"expected \)"),
        ("score LIKE 'a'", 7, "LIKE compares a column of text"),
        ("lang = 'a'; DROP TABLE x", 11, "this cannot be read"),
        ("length(lang) > 3", 1, "there is no column 'length'"),
        ("(" * 101 + "flag" + ")" * 101, 101, "more than 100 levels"),
    ],
)
def test_sql_that_is_wrong_is_named_with_its_place(sql, at, message):
    with pytest.raises(ValueError, match=f"at character {at}: {message}"):
        Where(sql, SCHEMA)


def test_no_text_is_anything_but_an_expression_or_a_named_error():
    chosen = random.Random(2)
    pieces = [*"()=<>,'\"", "lang", "score", "flag", " AND ", " NOT ", "NULL", "'x'", "0.5", " IN "]
    for _ in range(3000):
        sql = "".join(chosen.choices([*pieces, *string.printable], k=chosen.randint(0, 9)))
        with contextlib.suppress(ValueError):
            Where(sql, SCHEMA)
