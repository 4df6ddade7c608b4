"""The list of all parts in input order, kept in the workspace for the tasks that follow."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tokenmill.base.atomic import keep
from tokenmill.preparation.workspace.work_folder import Workspace, remember

FILE_NAME = "joined.json"


@dataclass(frozen=True)
class JoinedParts:
    """All parts in input order, and the documents that stand in several of them."""

    parts: list[dict[str, Any]]
    spans: list[dict[str, Any]]
    dropped: dict[str, int]
    """Documents dropped while joining, by reason."""
    counts: dict[str, int]

    def spans_of(self, part: int) -> list[dict[str, Any]]:
        """The spanning documents that touch a part, at most two, each with that part's number."""
        return [{**span, "part": part} for span in self._touching(part)]

    def _touching(self, part: int) -> list[dict[str, Any]]:
        # Spans are in order and overlap at most in one part: bisect for the neighbours.
        low, high = 0, len(self.spans)
        while low < high:
            middle = (low + high) // 2
            if self.spans[middle]["last"] < part:
                low = middle + 1
            else:
                high = middle
        return [span for span in self.spans[low : low + 2] if span["first"] <= part]


def keep_joined(workspace: Workspace, joined: JoinedParts) -> None:
    """Write the list."""
    keep(workspace.root / FILE_NAME, orjson.dumps(joined))


def load_joined(out_dir: str) -> JoinedParts:
    """Read the list; once a process."""
    return _load(Workspace(out_dir).root / FILE_NAME)


@remember
def _load(path: Path) -> JoinedParts:
    found = orjson.loads(path.read_bytes())
    return JoinedParts(**found)
