"""One-line defects, drawn by chance from the source: every place where an operator applies."""

import ast
import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tokenmill"
EQUAL: dict[str, str] = json.loads((Path(__file__).parent / "equal.json").read_text())

COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: (" in ", " not in "),
    ast.NotIn: (" not in ", " in "),
    ast.Is: (" is ", " is not "),
    ast.IsNot: (" is not ", " is "),
}
COUNTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Defect:
    """A text of a file of the repository that is replaced by another."""

    path: str
    """From the root of the repository."""
    old: str
    new: str
    start: int = -1
    """Its first character; -1: the text is there once."""

    @property
    def line(self) -> int:
        """The number of its first line, from 1."""
        source = (ROOT / self.path).read_text()
        return source.count("\n", 0, self._place(source)) + 1

    @property
    def name(self) -> str:
        """The line with its defect: what a reader looks for, and what stays when lines move."""
        if self.start < 0:
            return f"{self.path}: {_one_line(self.new) or 'nothing'} # {_one_line(self.old)}"
        source = (ROOT / self.path).read_text()
        start = self._place(source)
        first = source.rfind("\n", 0, start) + 1
        rest = source[start + len(self.old) :].partition("\n")[0]
        gone = f" # {self.old}" if self.new == "pass" else ""
        return f"{self.path}: {_one_line(source[first:start] + self.new + rest + gone)}"

    def apply(self, root: Path) -> None:
        """Put the defect into the tree at `root`."""
        path = root / self.path
        source = path.read_text()
        if self.start < 0 and source.count(self.old) != 1:
            raise ValueError(
                f"{self.path} has {self.old!r} {source.count(self.old)} times, not once"
            )
        start = self._place(source)
        path.write_text(source[:start] + self.new + source[start + len(self.old) :])

    def _place(self, source: str) -> int:
        return source.index(self.old) if self.start < 0 else self.start


def named() -> list[Defect]:
    """The defects that were chosen by hand."""
    defects = []
    for block in (Path(__file__).parent / "named.diff").read_text().split("\n\n"):
        path, *lines = [line for line in block.splitlines() if not line.startswith("#")] or [""]
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] == sign) for sign in "-+")
        if path:
            defects.append(Defect(path, old, new))
    return defects


def draw(count: int, seed: int) -> list[Defect]:
    """Draw defects from all rooms in turn, so that small rooms are tried as often as large ones.

    Each has a number by chance of its own: where other code changes, it is drawn as before.
    """
    rooms: dict[str, list[Defect]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        *folders, _ = path.relative_to(PACKAGE).parts
        rooms.setdefault(folders[0] if folders else ".", []).extend(_found_in(path))

    def chance(defect: Defect) -> bytes:
        return hashlib.sha256(f"{seed} {defect.name}".encode()).digest()

    shuffled = [sorted(places, key=chance) for places in rooms.values()]
    in_turn = (defect for turn in itertools.zip_longest(*shuffled) for defect in turn if defect)
    return list(itertools.islice(in_turn, count))


def _found_in(path: Path) -> list[Defect]:
    source = path.read_bytes()
    starts = [0]  # of lines, in bytes
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    name = str(path.relative_to(ROOT))
    return [
        Defect(name, source[low:high].decode(), new, len(source[:low].decode()))
        for node in _running_code(ast.parse(source))
        for low, high, new in _replaced(node, source, starts)
    ]


def _running_code(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations, and what only type checkers run."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns"):
            continue
        if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node
                yield from _running_code(node)


def _replaced(node: ast.AST, source: bytes, starts: list[int]) -> Iterator[tuple[int, int, str]]:
    """The parts of a node that are replaced: first byte, end, and what comes in their place."""

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first = starts[node.lineno - 1] + node.col_offset
        return first, starts[node.end_lineno - 1] + node.end_col_offset

    def between(
        left: ast.expr, right: ast.expr, old: str, new: str
    ) -> Iterator[tuple[int, int, str]]:
        low, high = span(left)[1], span(right)[0]
        at = source.find(old.encode(), low, high)
        if at >= 0 and source.count(old.strip().encode(), low, high) == 1:
            yield at, at + len(old), new

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from between(node.left, node.comparators[0], *COMPARED[type(node.ops[0])])
    elif isinstance(node, ast.BoolOp):
        words = (" and ", " or ") if isinstance(node.op, ast.And) else (" or ", " and ")
        yield from between(node.values[0], node.values[1], *words)
    elif isinstance(node, ast.BinOp) and type(node.op) in COUNTED:
        if not any(
            isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right)
        ):
            yield from between(node.left, node.right, *COUNTED[type(node.op)])
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLED:
        yield *span(node.func), CALLED[node.func.id]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        low, high = span(node)
        yield low, high, source[slice(*span(node.operand))].decode()
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield *span(node), str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield *span(node), str(node.value + 1)
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(
        node.test, ast.Constant
    ):
        low, high = span(node.test)
        yield low, high, f"not ({source[low:high].decode()})"
    elif isinstance(node, ast.Raise) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield *span(node), "pass"


def _is_docstring(node: ast.Raise | ast.Expr) -> bool:
    return isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:100]
