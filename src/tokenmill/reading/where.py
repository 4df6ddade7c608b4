"""A small, safe part of SQL that chooses documents: `lang = 'en' AND (score > 0.5 OR url IS NULL)`.

DuckDB parses it and computes it, for a batch of rows at a time. Its parser's tree must be made of
comparisons, IN, BETWEEN, LIKE, IS NULL, NOT, AND, OR, arithmetic and casts alone: no function (of
the clock, of random numbers, over all rows), no other table, no file.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tokenmill.base.suggest import did_you_mean
from tokenmill.errors import MissingExtraError

_ALLOWED = {
    *("COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION"),
    *("OPERATOR", "BETWEEN", "CAST", "TYPE"),
}
_ASKED = "SELECT ("  # before the expression


class Where:
    """An expression over facts with the columns of `schema`."""

    def __init__(self, sql: str, schema: Any) -> None:
        try:
            import duckdb
            import pyarrow as pa
        except ImportError as error:
            raise MissingExtraError("where=", package="duckdb", extra="parquet") from error

        self._sql = sql
        self._error = duckdb.Error
        settings: Any = {"threads": "1", "enable_external_access": "false"}
        self._database = duckdb.connect(config=settings)  # in memory
        self._spelt = {name.lower(): name for name in schema.names} | {n: n for n in schema.names}
        self.columns = list(dict.fromkeys(self._names(self._tree())))
        """Names of the columns that it needs."""
        names = self.columns or schema.names
        nothing = pa.table({name: pa.nulls(1, schema.field(name).type) for name in names})
        next(self.masks([nothing]))  # which says what does not fit the types of the columns

    def masks(self, batches: Iterable[Any]) -> Iterator[np.ndarray]:
        """Yield for the rows of each batch whether they are chosen; a row with NULL is not."""
        import pyarrow as pa

        for batch in batches:
            table = pa.table(batch)
            ids = " REPLACE (lower(hex(id)) AS id)" if "id" in table.column_names else ""
            asked = f"{_ASKED}{self._sql}\n) AS chosen FROM (SELECT *{ids} FROM facts)"
            try:
                self._database.register("facts", table)
                result = self._database.execute(asked)
                kind = str(result.description[0][1])
                chosen = result.fetchnumpy()["chosen"]
            except self._error as error:
                raise self._wrong(str(error)) from None
            if kind != "BOOLEAN":
                raise self._wrong(f"it is {kind}, not a condition")
            yield np.ma.filled(chosen, fill_value=False).astype(bool, copy=False)

    def _tree(self) -> Any:
        """Return how DuckDB reads the expression."""
        asked = [f"{_ASKED}{self._sql}\n)"]
        result = self._database.execute("SELECT json_serialize_sql(?)", asked)
        ((text,),) = result.fetchall()
        parsed = json.loads(text)
        if parsed["error"]:
            at = int(parsed.get("position", len(_ASKED))) - len(_ASKED)
            raise self._wrong(parsed["error_message"], at)
        (statement,) = parsed["statements"]
        trees = statement["node"]["select_list"]
        if len(trees) > 1 or not self._sql.strip():
            raise self._wrong("it is not one condition", 0)
        return trees

    def _names(self, tree: Any) -> Iterator[str]:
        """Yield the names of columns; refuse what is not an expression over them."""
        if isinstance(tree, list):
            for part in tree:
                yield from self._names(part)
        if not isinstance(tree, dict):
            return
        kind = tree.get("class")
        is_operator = kind == "FUNCTION" and tree["is_operator"]
        if kind not in _ALLOWED | {None} and not is_operator:
            what = "there are no functions here" if kind == "FUNCTION" else f"no {kind}"
            raise self._wrong(f"{what}: compare columns with values", self._place(tree))
        if kind == "COLUMN_REF":
            name = ".".join(tree["column_names"])
            found = self._spelt.get(name, self._spelt.get(name.lower()))
            if found is None:
                known = ", ".join(dict.fromkeys(self._spelt.values()))
                what = f"there is no column {name!r}; the facts have {known}"
                raise self._wrong(what + did_you_mean(name, self._spelt), self._place(tree))
            yield found
        for part in tree.values():
            yield from self._names(part)

    def _place(self, tree: Any) -> int:
        return int(tree["query_location"]) - len(_ASKED)

    def _wrong(self, what: str, at: int | None = None) -> ValueError:
        """Return the error; `at` is where in the text, if DuckDB's message does not show it."""
        what, _, shown = what.partition(f"\n\nLINE 1: {_ASKED}")
        if at is None and shown:
            at = shown.splitlines()[-1].index("^") - len(f"LINE 1: {_ASKED}")
        place = "" if at is None else f"at character {at + 1}: "
        marked = self._sql if at is None else f"{self._sql[:at]}>>>{self._sql[at:]}"
        return ValueError(
            f"where: {place}{what}\n       {marked}\n\n"
            "hint: write it like \"lang = 'en' AND score > 0.5\" (docs/guides/facts.md)"
        )
