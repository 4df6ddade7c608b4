"""The code blocks of our pages, and how a test runs them.

An HTML comment before a block, which readers do not see, says what differs in the tests:

    <!-- not run: needs a network -->                   only checked: it compiles, its flags exist
    <!-- run with: device="cuda" -> device="cpu" -->    texts to replace, separated by `;`
    <!-- run first: model = make_model() -->            Python that the page takes for granted
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "bench/README.md"]
PAGES += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))

BLOCK = re.compile(
    r"^```(?P<language>python|console)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
COMMENTS = re.compile(r"(?:<!--(?:(?!-->).)*-->\s*)+\Z", re.DOTALL)
COMMENT = re.compile(r"<!--\s*(not run|run with|run first):(.*?)-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code, ready to run; `line` is where it begins in the page."""

    page: str
    line: int
    language: str
    code: str
    not_run: str
    """Why it is not run; empty where it is."""
    first: str
    """Python to run before it."""

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Of a console block: each command with the lines of output that are shown after it."""
        found: list[tuple[str, list[str]]] = []
        for line in self.code.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return found


def blocks_of(page: str) -> list[Block]:
    """The blocks of Python and of the console, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        before = COMMENTS.search(text, 0, match.start())
        notes = dict(COMMENT.findall(before[0])) if before else {}
        code = match["code"]
        for pair in filter(None, notes.get("run with", "").split(";")):
            shown, run = (part.strip() for part in pair.split(" -> "))
            assert shown in code, f"{page} does not show {shown!r}, which the test replaces"
            code = code.replace(shown, run)
        found.append(
            Block(
                page=page,
                line=text.count("\n", 0, match.start("code")),
                language=match["language"],
                code=code,
                not_run=notes.get("not run", "").strip(),
                first=notes.get("run first", "").strip(),
            )
        )
    return found


def words_of(command: str) -> list[str]:
    """The words of a command without its comment."""
    return shlex.split(command, comments=True)
