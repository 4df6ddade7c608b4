"""The certificate of what was forgotten: `forgotten.json`, named and hashed in the manifest.

It names the documents, and has hashes of all else in the shards that were written again, as it was
before. look/forgotten_proof.py compares both with what is there.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tokenmill.base.strict_json import COUNT, HEX128, OBJECT, Value, check_fields, parse_object
from tokenmill.shards.manifest import Manifest

FILE_NAME = "forgotten.json"
_TIME = {"documents": OBJECT, "manifest": HEX128, "files": [OBJECT], "runs": [OBJECT]}
_FORM = {"version": Value((1).__eq__, "1"), "rest": OBJECT, "forgotten": [_TIME]}
_DOCUMENTS = [{"document": COUNT, "id": HEX128}]


@dataclass
class Forgotten:
    """All that was forgotten of a dataset."""

    rest: dict[str, dict[str, str]] = field(default_factory=dict)
    """By shard: hashes of the ids, and of each column, without what was forgotten."""
    forgotten: list[dict[str, Any]] = field(default_factory=list)
    """For each time: documents, the hash of the manifest and of files before, and runs."""

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> "Forgotten":
        """Read the certificate of a dataset; an empty one where nothing was forgotten."""
        if manifest.forgotten is None:
            return cls()
        where = str(folder / manifest.forgotten.file)
        tree = parse_object(Path(where).read_bytes(), where)
        check_fields(tree, _FORM, where)
        for number, time in enumerate(tree["forgotten"]):
            for split, documents in time["documents"].items():
                check_fields(documents, _DOCUMENTS, where, f"forgotten[{number}].{split}")
        return cls(tree["rest"], tree["forgotten"])

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps({"version": 1, **vars(self)}, option=options)

    def documents(self, split: str) -> dict[int, str]:
        """Return the forgotten documents of a split: number -> id."""
        of_times = (time["documents"].get(split, []) for time in self.forgotten)
        return {entry["document"]: entry["id"] for entries in of_times for entry in entries}
