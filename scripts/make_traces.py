"""Profile one preparation and one loader, and write the two lists of CONTRIBUTING.md from it.

    python scripts/make_traces.py           # writes the lists
    python scripts/make_traces.py --table   # prints how many files and functions each half runs

A list has every file of ours that ran, in the order of its first call, with the function that was
called first and the first sentence of that function's docstring. So the lists cannot be wrong, and
they grow when the way of the data does.
"""

import argparse
import ast
import inspect
import json
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tokenmill

ROOT = Path(__file__).parents[1]
PACKAGE = Path(tokenmill.__file__).parent
PAGE = ROOT / "CONTRIBUTING.md"
WRITING = "From a line of a .jsonl file to its byte in a shard"
READING = "From a byte of a shard to `batch.inputs`"
EVERYWHERE = ("base", "errors.py", "version.py", "__init__.py")  # used on every way, no stop of one


@dataclass
class Profile:
    """Functions of ours that ran, in the order of their first calls."""

    codes: dict[CodeType, None] = field(default_factory=dict)

    def of(self, call: Callable[[], Any]) -> Any:
        threading.setprofile(self._note)  # batches are made by a thread
        sys.setprofile(self._note)
        try:
            return call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            self.codes.setdefault(frame.f_code)

    def functions(self) -> list[CodeType]:
        """Named functions: no bodies of modules and classes, no lambdas, no comprehensions."""
        return [
            code
            for code in self.codes
            if code.co_flags & inspect.CO_NEWLOCALS and not code.co_name.startswith("<")
        ]

    def files(self) -> list[str]:
        names = (Path(code.co_filename).relative_to(PACKAGE) for code in self.functions())
        return list(dict.fromkeys(map(str, names)))


@dataclass(frozen=True)
class Profiles:
    """What ran in each part of the two halves."""

    prepare: Profile
    open: Profile
    first_batch: Profile
    later_batch: Profile


def take_profiles(folder: Path) -> Profiles:
    """Prepare a few lines, open the result and load from it, all in this process."""
    lines = [json.dumps({"text": f"This is line {i} of a small corpus.\n" * 40}) for i in range(30)]
    corpus, dataset = folder / "corpus.jsonl", folder / "dataset"
    corpus.write_text("\n".join(lines) + "\n")
    prepare, opened, first, later = Profile(), Profile(), Profile(), Profile()
    prepare.of(lambda: tokenmill.prepare(corpus, dataset, workers=1))
    data = opened.of(lambda: tokenmill.open(dataset))
    loader = tokenmill.BatchLoader(data, batch_size=2, block_size=32)
    first.of(lambda: next(loader).inputs)
    for _ in range(20):
        next(loader)
    later.of(lambda: next(loader).inputs)
    return Profiles(prepare, opened, first, later)


def warm_profiles() -> Profiles:
    """Profiles of a second run, in which nothing is imported any more."""
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            profiles = take_profiles(Path(folder))
    return profiles


def list_of(*profiles: Profile) -> str:
    """The files of some profiles as a numbered list, each with its first function."""
    stops: dict[str, CodeType] = {}
    for profile in profiles:
        for code in profile.functions():
            name = str(Path(code.co_filename).relative_to(PACKAGE))
            if not name.startswith(EVERYWHERE) and not name.endswith("__init__.py"):
                stops.setdefault(name, code)
    lines = [
        f"{number}. `{name}` `{code.co_qualname}`: {sentence_of(name, code)}"
        for number, (name, code) in enumerate(stops.items(), 1)
    ]
    return "\n".join(lines)


def sentence_of(name: str, code: CodeType) -> str:
    """The first line of a function's docstring, of its class, or else of its module."""
    tree = ast.parse((PACKAGE / name).read_text())
    docs = [ast.get_docstring(tree)]
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if node.name in code.co_qualname.split("."):
            docs.append(ast.get_docstring(node))
    text = next(doc for doc in reversed(docs) if doc)
    return text.splitlines()[0].rstrip(".")


def with_lists(page: str, profiles: Profiles) -> str:
    """The page with both lists as the profiles have them."""
    lists = {
        WRITING: list_of(profiles.prepare),
        READING: list_of(profiles.open, profiles.first_batch),
    }
    for title, text in lists.items():
        pattern = rf"(## {re.escape(title)}\n\n(?:[^\n\d][^\n]*\n+)*)(?:\d+\. [^\n]*\n)+"
        page, count = re.subn(pattern, lambda match, text=text: f"{match[1]}{text}\n", page)
        assert count == 1, title
    return page


@dataclass
class WayOfALine(Profile):
    """What a cleaned, deduplicated preparation of a .jsonl file runs, part by part."""

    before_text: Profile = field(default_factory=Profile)
    """All that ran before the reader of lines was called."""
    tasks: Profile = field(default_factory=Profile)
    """All that ran inside tasks: hash, encode, assemble."""
    depth: int = 0
    """Frames of ours from `prepare` to the reader of lines."""

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        super()._note(frame, event, argument)
        if event != "call" or not frame.f_code.co_filename.startswith(str(PACKAGE)):
            return
        if not self.depth:
            self.before_text.codes.setdefault(frame.f_code)
        stack = []
        at: FrameType | None = frame
        while at is not None:
            if at.f_code.co_filename.startswith(str(PACKAGE)):
                stack.append(at.f_code)
            at = at.f_back
        if any(code.co_filename.endswith("executors/local.py") for code in stack):
            self.tasks.codes.setdefault(frame.f_code)
        if not self.depth and frame.f_code.co_filename.endswith("read_jsonl.py"):
            self.depth = len(stack) - 1


def way_of_a_line() -> WayOfALine:
    """Profile a second preparation, in which nothing is imported any more."""
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            corpus = Path(folder) / "corpus.jsonl"
            corpus.write_text("".join(f'{{"text": "Line {i} of a corpus."}}\n' for i in range(99)))
            options = {"clean": True, "dedup": "lines", "workers": 1}
            way = WayOfALine()
            way.of(partial(tokenmill.prepare, corpus, Path(folder) / "dataset", **options))
    return way


def table(profiles: Profiles) -> str:
    """Files and functions of each part, a line each."""
    way = way_of_a_line()
    parts = {**vars(profiles), "before text": way.before_text, "tasks": way.tasks}
    rows = [
        f"{name:<12} {len(profile.files()):>4} files {len(profile.functions()):>4} functions"
        for name, profile in parts.items()
    ]
    return "\n".join([*rows, f"from prepare to the reader of lines: {way.depth} frames"])


def main() -> None:
    """Write the lists, or print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print counts, write nothing")
    arguments = parser.parse_args()
    profiles = warm_profiles()
    if arguments.table:
        print(table(profiles))
        return
    PAGE.write_text(with_lists(PAGE.read_text(), profiles))


if __name__ == "__main__":
    main()
