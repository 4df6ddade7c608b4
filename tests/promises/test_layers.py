"""Promise: rooms form layers. Three rules, each for every room, sub-room and command.

A room imports only what the table allows, at any depth of a file. A sub-room never imports its
parent. And the plain path, which is what runs for local, plain data, imports no feature: an edit, a
store, an augmentation, a mixture, compression or a foreign format is imported where it is used.
"""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "tokenmill"
FOR_ALL = {"errors", "base", "version", "kernel"}
MAY_IMPORT = {
    "version": set(),
    "errors": set(),
    "base": set(),
    "kernel": set(),
    "text": {"stores", "hub"},
    "tokens": {"hub"},  # a name of the hub
    "order": set(),
    "reading": {"order", "stores"},
    "stores": {"reading", "order"},
    "shards": {"reading", "stores"},
    "formats": {"reading", "shards", "stores"},
    "dataset": {"reading", "formats", "tokens", "stores"},
    "batches": {"order", "reading", "dataset", "edits", "augment"},
    "augment": {"order", "batches", "dataset"},
    "edits": {"order", "batches", "dataset"},
    "torch": {"batches"},
    "compat": {"torch", "dataset", "tokens", "hub"},
    "metrics": {"batches"},
    "trainers": {"torch", "batches", "dataset"},
    # A run has a page (run_page.py), in the frame and style of the others.
    "train": {
        *("torch", "compat", "batches", "edits", "augment", "dataset", "tokens", "pages"),
        "metrics",
    },
    "executors": set(),
    # A dataset may be the input of a preparation: retokenize.py.
    "preparation": {
        *("text", "tokens", "shards", "executors", "formats", "dataset", "stores", "hub"),
        "reading",
    },
    "conversion": {"reading", "shards", "formats", "dataset", "tokens"},
    # Files on the hub may be inputs: hub_inputs.py reads them as stores/ reads objects.
    "hub": {"shards", "dataset", "stores"},
    "look": {"text", "tokens", "shards", "formats", "dataset", "batches", "hub"},
    "pages": {"look", "dataset", "batches", "edits"},
    # A certificate says which runs had trained on what is forgotten.
    "forgetting": {"reading", "shards", "dataset", "conversion", "look", "train"},
    "cli": {
        *("text", "tokens", "dataset", "batches", "edits", "torch", "train", "executors"),
        *("preparation", "conversion", "forgetting", "hub", "look", "pages"),
    },
}
# Modules that import stores when they are imported: they are for addresses themselves.
FOR_ADDRESSES = {"remote", "remote_target", "hub_inputs", "claim", "lease", "work_bucket"}
HEAVY = {"torch", "ray", "pyarrow", "transformers", "lightning", "tokenizers", "fsspec", "awkward"}
HEAVY |= {"datasets", "litgpt", "olmo_core", "torchtitan"}
PLAIN = (
    "tokenmill.dataset",
    "tokenmill.formats.ours",
    "tokenmill.batches.loader",
    "tokenmill.preparation.prepare",
    "tokenmill.tokens.tiktoken_file",
)
FEATURES = (
    *("edits", "stores", "augment", "compat", "torch", "train", "hub", "look", "pages", "cli"),
    *(
        "trainers",
        "formats.hf",
        "conversion",
        "forgetting",
        "shards.forgotten",
        "batches.mixture",
        "order.mixture_order",
        "reading.frames",
    ),
    *(f"formats.{name}" for name in ("datatrove", "dolma", "litdata", "llmc", "mds", "megatron")),
    *("tokens.huggingface", "tokens.sentencepiece", "preparation.from_tokens"),
    *("preparation.train_tokenizer", "preparation.pretokenize", "executors.ray"),
    *("text.filters", "preparation.stages.filtered_text", "preparation.stages.removals"),
    "preparation.stages.removed_record",
)
"""Rooms and modules; a room is all of its modules."""


def modules() -> dict[str, Path]:
    """Every module of ours by its name."""
    names = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


MODULES = modules()


def statements(tree: ast.AST, *, at_import: bool):
    """Statements of a module; with `at_import`, only those that run when it is imported."""
    for node in ast.iter_child_nodes(tree):
        if at_import:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
        yield node
        yield from statements(node, at_import=at_import)


@cache
def imports(name: str, *, at_import: bool = False) -> frozenset[str]:
    """The modules of ours that a module imports."""
    found = set()
    for node in statements(ast.parse(MODULES[name].read_text()), at_import=at_import):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found & MODULES.keys())


def room_of(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def test_the_table_has_every_room():
    rooms = {room_of(name) for name in MODULES} - {"", "__main__"}

    assert rooms == MAY_IMPORT.keys()


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_the_table_allows(room):
    allowed = MAY_IMPORT[room] | FOR_ALL | {room, ""}
    wrong = {
        f"{name} imports {target}"
        for name in MODULES
        if room_of(name) == room
        for target in imports(name)
        if room_of(target) not in allowed
    }

    assert not wrong


def test_the_table_allows_nothing_that_nobody_needs():
    needed = {room: set() for room in MAY_IMPORT}
    for name in MODULES:
        if room_of(name) in needed:
            needed[room_of(name)] |= {room_of(target) for target in imports(name)}

    assert {
        room: sorted(allowed - needed[room])
        for room, allowed in MAY_IMPORT.items()
        if allowed - needed[room]
    } == {}


def test_a_sub_room_never_imports_its_parent():
    wrong = set()
    for name in MODULES:
        room = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
        if room.count(".") < 2:
            continue  # a room, not a sub-room
        outer = room.rpartition(".")[0]
        for target in imports(name):
            inside = target == room or target.startswith(f"{room}.")
            if target.rpartition(".")[0] == outer and not inside and is_module(target):
                wrong.add(f"{name} imports {target}")

    assert not wrong


def is_module(name: str) -> bool:
    return MODULES[name].name != "__init__.py"


def loaded_by(name: str) -> set[str]:
    """All modules of ours that are loaded when one is imported, by their import statements."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        waiting += imports(current, at_import=True)
        parent = current.rpartition(".")[0]
        if parent:
            waiting.append(parent)
    return seen


@pytest.mark.parametrize("name", PLAIN)
def test_the_plain_path_imports_no_feature(name):
    loaded = loaded_by(name)
    features = {
        module
        for module in loaded
        for feature in FEATURES
        if f"{module}.".startswith(f"tokenmill.{feature}.")
    }

    assert len(loaded) > 5
    assert not features


def test_stores_are_imported_for_an_address_only():
    at_import = {
        name.rpartition(".")[2]
        for name in MODULES
        if room_of(name) != "stores"
        and any(room_of(target) == "stores" for target in imports(name, at_import=True))
    }

    assert at_import == FOR_ADDRESSES


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
