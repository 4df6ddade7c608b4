"""A small, safe part of SQL that chooses documents: `lang = 'en' AND (score > 0.5 OR url IS NULL)`.

    name = value     and <> != < <= > >=; NULL is chosen by none of them
    name IN (a, b)   name BETWEEN a AND b   name LIKE 'https://%'   ILIKE   name IS NULL
    NOT, AND, OR, ( ), TRUE, FALSE; a boolean column stands alone

Values are 'text', numbers, TRUE and FALSE; dates and times are text. A name that is not of letters,
digits and _ is written "meta.id". The rows that are chosen are those that DuckDB chooses (also of
NaN, which is above all numbers). Parsed here and computed by pyarrow, since that is installed where
Parquet is read, and nothing but comparisons can be meant. A batch of rows is computed at a time.
"""

import functools
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn

from tokenmill.base.suggest import did_you_mean

_WORD = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")+")|(?P<number>-?(?:\d+\.?\d*|\.\d+)"""
    r"""(?:[eE][+-]?\d+)?)(?![\w.])|(?P<name>[A-Za-z_]\w*)|(?P<sign><=|>=|<>|!=|==|[=<>(),]))"""
)
_COMPARE = {"=": "equal", "==": "equal", "<>": "not_equal", "!=": "not_equal", "<": "less",
            "<=": "less_equal", ">": "greater", ">=": "greater_equal"}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_KEYWORDS = {"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "IS", "NULL", "TRUE", "FALSE"}
_MOST_DEPTH = 100

Evaluate = Callable[[Any], Any]
"""Returns an array of booleans, or NULL, for the rows of a record batch."""


class Word(NamedTuple):
    """One word of the expression: its kind, what it says, and where it begins."""

    kind: str
    value: Any
    at: int


class Where:
    """An expression over columns with the types of `schema`."""

    def __init__(self, sql: str, schema: Any) -> None:
        self._sql = sql
        self._schema = schema
        self.columns: list[str] = []
        """Names of the columns that it needs."""
        self._words = self._split()
        self._next = 0
        self._depth = 0
        self._evaluate = self._any_of()
        if self._word.kind != "end":
            self._refuse("expected AND, OR or the end")

    def mask(self, batch: Any) -> Any:
        """Return for each row whether it is chosen, as an Arrow array without NULL."""
        return self._evaluate(batch).fill_null(False)

    def _split(self) -> list[Word]:
        words = []
        at = 0
        end = len(self._sql.rstrip())
        while at < end:
            found = _WORD.match(self._sql, at)
            if found is None:
                start = at + len(self._sql[at:]) - len(self._sql[at:].lstrip())
                self._refuse_at(start, "this cannot be read")
            kind = str(found.lastgroup)
            value: Any = found[kind]
            if kind == "text":
                value = value[1:-1].replace("''", "'")
            elif kind == "quoted":
                kind, value = "column", value[1:-1].replace('""', '"')
            elif kind == "number":
                value = int(value) if re.fullmatch(r"-?\d+", value) else float(value)
            elif kind == "name" and value.upper() in _KEYWORDS:
                kind, value = "keyword", value.upper()
            elif kind == "name":
                kind = "column"
            words.append(Word(kind, value, found.start(str(found.lastgroup))))
            at = found.end()
        return [*words, Word("end", "", end)]

    @property
    def _word(self) -> Word:
        return self._words[self._next]

    def _take(self, *values: str) -> str | None:
        """Go past the next word, if it is one of these signs or keywords."""
        word = self._word
        if word.kind in ("sign", "keyword") and word.value in values:
            self._next += 1
            return str(word.value)
        return None

    def _any_of(self) -> Evaluate:
        parts = [self._all_of()]
        while self._take("OR"):
            parts.append(self._all_of())
        return _folded("or_kleene", parts)

    def _all_of(self) -> Evaluate:
        parts = [self._negated()]
        while self._take("AND"):
            parts.append(self._negated())
        return _folded("and_kleene", parts)

    def _negated(self) -> Evaluate:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            self._refuse(f"more than {_MOST_DEPTH} levels of NOT and ( )")
        if self._take("NOT"):
            found = _inverted(self._negated())
        elif self._take("("):
            found = self._any_of()
            if not self._take(")"):
                self._refuse("expected )")
        else:
            found = self._predicate()
        self._depth -= 1
        return found

    def _predicate(self) -> Evaluate:
        import pyarrow as pa
        import pyarrow.compute as pc

        word = self._word
        if word.kind in ("text", "number") or word.value in ("TRUE", "FALSE"):
            value = self._value()
            sign = self._take(*_COMPARE)
            if sign is None and isinstance(value, bool):
                return lambda batch: pa.repeat(pa.scalar(value), len(batch))
            if sign is None or self._word.kind != "column":
                self._refuse("expected a comparison with a column")
            return self._compared(self._column(), _TURNED.get(sign, sign), value, word.at)
        name = self._column()
        if self._take("IS"):
            is_not = self._take("NOT")
            if not self._take("NULL"):
                self._refuse("expected NULL")
            test = pc.is_valid if is_not else pc.is_null
            return lambda batch: test(_plain(batch[name]))
        is_not = self._take("NOT")
        found = self._ranged(name)
        if found is not None:
            return _inverted(found) if is_not else found
        if is_not:
            self._refuse("expected IN, BETWEEN or LIKE")
        if sign := self._take(*_COMPARE):
            at = self._word.at
            return self._compared(name, sign, self._value(), at)
        if str(self._schema.field(name).type) != "bool":
            self._refuse(f"expected a comparison, such as = or IN, after {name}")
        return lambda batch: batch[name]

    def _ranged(self, name: str) -> Evaluate | None:
        """IN, BETWEEN or LIKE."""
        import pyarrow as pa
        import pyarrow.compute as pc

        at = self._word.at
        if self._take("BETWEEN"):
            low = self._compared(name, ">=", self._value(), at)
            if not self._take("AND"):
                self._refuse("expected AND")
            return _folded("and_kleene", [low, self._compared(name, "<=", self._value(), at)])
        if self._take("IN"):
            if not self._take("("):
                self._refuse("expected (")
            values = [self._comparable(name, self._value(), at)]
            while self._take(","):
                values.append(self._comparable(name, self._value(), at))
            if not self._take(")"):
                self._refuse("expected , or )")
            return _on_values(name, partial(_is_in, values))
        if word := self._take("LIKE", "ILIKE"):
            pattern = self._value()
            if not isinstance(pattern, str) or self._schema.field(name).type != pa.string():
                self._refuse_at(at, f"{word} compares a column of text with 'text'")
            pattern = pattern.replace("\\", "\\\\")  # which is a character like others in SQL
            is_alike = word == "ILIKE"
            return _on_values(name, lambda v: pc.match_like(v, pattern, ignore_case=is_alike))
        return None

    def _compared(self, name: str, sign: str, value: Any, at: int) -> Evaluate:
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self._schema.field(name).type
        scalar = self._comparable(name, value, at)
        compare = getattr(pc, _COMPARE[sign])
        if pa.types.is_floating(kind) and sign in (">", ">="):
            return lambda batch: pc.or_kleene(compare(batch[name], scalar), pc.is_nan(batch[name]))
        return _on_values(name, lambda values: compare(values, scalar))

    def _comparable(self, name: str, value: Any, at: int) -> Any:
        """Return a value as a scalar that the values of a column can be compared with."""
        kind = self._schema.field(name).type
        scalar = _scalar(value, kind)
        if scalar is None:
            self._refuse_at(at, f"{name} is {kind}, and {value!r} is not of that kind")
        return scalar

    def _value(self) -> Any:
        word = self._word
        self._next += 1
        if word.kind in ("text", "number"):
            return word.value
        if word.value in ("TRUE", "FALSE") and word.kind == "keyword":
            return word.value == "TRUE"
        self._next -= 1
        if word.value == "NULL":
            self._refuse("NULL equals nothing; write IS NULL or IS NOT NULL")
        if word.kind == "column":
            self._refuse(f"expected a value; is {word.value} text? write '{word.value}'")
        self._refuse("expected a value, such as 'text' or 0.5")

    def _column(self) -> str:
        word = self._word
        if word.kind != "column":
            self._refuse("expected the name of a column")
        name = str(word.value)
        if name not in self._schema.names:
            known = ", ".join(self._schema.names)
            close = did_you_mean(name, self._schema.names)
            self._refuse(f"there is no column {name!r}; the facts have {known}{close}")
        self._next += 1
        if name not in self.columns:
            self.columns.append(name)
        return name

    def _refuse(self, what: str) -> NoReturn:
        self._refuse_at(self._word.at, what)

    def _refuse_at(self, at: int, what: str) -> NoReturn:
        marked = f"{self._sql[:at]}>>>{self._sql[at:]}"
        raise ValueError(
            f"where: at character {at + 1}: {what}\n       {marked}\n\n"
            "hint: write it like \"lang = 'en' AND score > 0.5\" (docs/guides/facts.md)"
        )


def _scalar(value: Any, kind: Any) -> Any:
    """Return a value as it is compared with a column of this type; None if it cannot be."""
    import pyarrow as pa

    types = pa.types
    try:
        if isinstance(value, bool) or types.is_boolean(kind):
            return pa.scalar(value) if isinstance(value, bool) and types.is_boolean(kind) else None
        if isinstance(value, str):
            if types.is_binary(kind) or types.is_fixed_size_binary(kind):
                return pa.scalar(bytes.fromhex(value), kind)
            is_text = types.is_string(kind) or types.is_temporal(kind)
            return pa.scalar(value).cast(kind) if is_text else None
        if types.is_floating(kind):
            return pa.scalar(float(value), kind)
        is_number = types.is_integer(kind) or types.is_decimal(kind)
        return pa.scalar(value) if is_number else None
    except (pa.ArrowException, ValueError, OverflowError):
        return None


def _is_in(scalars: list[Any], values: Any) -> Any:
    """Return whether each value is one of these; NULL for NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    # A fraction among whole numbers; and -0.0, which is in (0) but would not be found.
    if pa.types.is_floating(kind) or any(scalar.type != kind for scalar in scalars):
        return functools.reduce(pc.or_kleene, [pc.equal(values, scalar) for scalar in scalars])
    found = pc.is_in(values, pa.array([scalar.as_py() for scalar in scalars], kind))
    return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))


def _on_values(name: str, compute: Evaluate) -> Evaluate:
    """Compute on the values of a column; of a dictionary, once for each entry."""

    def evaluate(batch: Any) -> Any:
        column = batch[name]
        if hasattr(column, "dictionary"):
            return compute(column.dictionary).take(column.indices)
        return compute(column)

    return evaluate


def _plain(column: Any) -> Any:
    return getattr(column, "indices", column)


def _inverted(evaluate: Evaluate) -> Evaluate:
    import pyarrow.compute as pc

    return lambda batch: pc.invert(evaluate(batch))


def _folded(function: str, parts: list[Evaluate]) -> Evaluate:
    import pyarrow.compute as pc

    join = getattr(pc, function)

    def evaluate(batch: Any) -> Any:
        found = parts[0](batch)
        for part in parts[1:]:
            found = join(found, part(batch))
        return found

    return evaluate if len(parts) > 1 else parts[0]
