"""join: list all parts in input order, those of long documents put together.

A document that runs through several units left a stretch in each. Here they become one part: the
files stay as they are, and only the hash of the whole document is computed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import orjson

from tokenmill.base.atomic import keep
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stages.encode import EncodedUnit, encoded_units
from tokenmill.preparation.stages.parts import FOLDER, Part, TokenFile
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.work_folder import read_once

PARTS_FILE = "parts.json"


@read_once(PARTS_FILE)
def load_parts(path: Path) -> list[Part]:
    """All parts of a preparation in input order, by its output folder."""
    return [Part.from_json(part) for part in orjson.loads(path.read_bytes())]


def join_units(out_dir: str, _number: int = 0) -> Receipt:
    """Task: leave the list of all parts. One task, since a document may run through all units."""
    plan = load_plan(out_dir)
    parts = list(join_stretches(plan, encoded_units(plan)))
    keep(plan.workspace.root / PARTS_FILE, orjson.dumps([asdict(part) for part in parts]))
    tables = [f"../{FOLDER}/{part.name}.rows" for part in parts if _is_joined(part)]
    return plan.workspace.leave_receipt("joined", "0", [f"../{PARTS_FILE}", *tables], {})


def join_stretches(plan: Plan, units: Iterable[EncodedUnit]) -> Iterator[Part]:
    """The parts of all units in order; a stretch that ends no document goes to the next one."""
    files: tuple[TokenFile, ...] = ()
    for unit in units:
        for stretch in unit.parts:
            files += stretch.files
            if not stretch.num_documents:
                continue
            part = Part(files, stretch.num_documents)
            files = ()
            if _is_joined(part):
                _write_table(plan, part)
            yield part
    assert not files, "the last unit leaves no document open"


def _write_table(plan: Plan, part: Part) -> None:
    from tokenmill.preparation.stages.long_documents import hash_document, write_row

    write_row(plan, part, hash_document(plan, part) if plan.needs_hashes else b"")


def _is_joined(part: Part) -> bool:
    """Whether the files of a part are from several units."""
    return part.files[0].unit != part.files[-1].unit
