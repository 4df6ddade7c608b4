"""Promise: folders form layers; imports follow this table and never point back."""

import ast
import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "tokenmill"
FOR_ALL = {"errors", "base", "version", "kernel"}
MAY_IMPORT = {
    "kernel": set(),
    "base": set(),
    "stores": {"reading", "order"},
    "text": {"stores"},
    "tokens": {"text"},
    "reading": {"stores", "order"},
    "shards": {"stores", "reading"},
    "formats": {"stores", "reading", "shards"},
    "dataset": {"stores", "reading", "shards", "formats", "tokens"},
    "order": set(),
    "edits": {"order", "batches", "dataset", "reading"},
    "batches": {"order", "edits", "augment", "dataset", "reading"},
    "augment": {"order", "batches", "dataset"},
    "torch": {"batches", "edits"},
    "compat": {"torch", "dataset", "tokens", "hub"},
    "train": {"torch", "compat", "edits", "augment", "batches", "dataset", "tokens"},
    "executors": set(),
    # A dataset may be the input of a preparation: from_tokens/.
    "preparation": {"stores", "text", "tokens", "shards", "executors", "formats", "dataset"},
    "conversion": {"reading", "shards", "formats", "dataset", "tokens"},
    "hub": {"shards", "dataset"},
    "look": {
        "text",
        "tokens",
        "reading",
        "shards",
        "formats",
        "dataset",
        "batches",
        "edits",
        "hub",
    },
    "pages": {"look", "edits", "reading", "shards", "formats", "dataset", "batches", "order"},
}
# Imported inside functions, after somebody named an address. In these modules at the top, for
# they are imported like that themselves.
STORES = "stores"
FOR_ADDRESSES = {"remote.py", "remote_target.py", "upload_shards.py", "claim.py"}
HEAVY = {"torch", "ray", "pyarrow", "transformers", "lightning", "tokenizers", "fsspec", "awkward"}


def sibling_imports(path: Path, *, top: bool = False) -> set[str]:
    """The rooms of our own package that a file imports from, at any depth of the file; or those
    that are imported when it is (`top`)."""
    targets = set()
    tree = ast.parse(path.read_text())
    for node in tree.body if top else ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "tokenmill":
                names = [f"tokenmill.{alias.name}" for alias in node.names]
        targets |= {name.split(".")[1] for name in names if name.startswith("tokenmill.")}
    return targets


def test_folders_import_only_what_the_table_allows():
    seen = 0
    for room, allowed in MAY_IMPORT.items():
        files = [PACKAGE / f"{room}.py", *(PACKAGE / room).rglob("*.py")]
        for path in filter(Path.exists, files):
            seen += 1
            for target in sibling_imports(path):
                assert target in allowed | FOR_ALL | {room}, f"{path} imports tokenmill.{target}"
    assert seen > 20


def test_stores_are_imported_for_an_address_only():
    outside = [path for path in PACKAGE.rglob("*.py") if path.parent.name != STORES]
    at_the_top = {path.name for path in outside if STORES in sibling_imports(path, top=True)}

    assert at_the_top == FOR_ADDRESSES


def test_the_map_of_the_tree_names_every_room():
    rooms = {path.name for path in PACKAGE.iterdir() if not path.name.startswith("__")}
    rooms -= {"py.typed", "version.py"}
    shown = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text())) or ""
    for room in rooms:
        assert room.removesuffix(".py") in shown, room


def test_importing_tokenmill_loads_nothing_heavy():
    code = (
        "import sys, tokenmill; tokenmill.open; tokenmill.BatchLoader; tokenmill.prepare;"
        f"print(sorted(set(sys.modules) & {HEAVY!r}))"
    )

    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )

    assert out.stdout.strip() == "[]"
