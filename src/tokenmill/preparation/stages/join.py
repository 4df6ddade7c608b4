"""Join what units left open: encode the text between two units, and list all parts in order.

Most units end where a document ends, and there is nothing to do. A document larger than a unit
leaves a tail here and a head there; together they are a few words, encoded now, as a part of their
own. The list of parts, with these in their places, is the whole dataset in input order.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash

from tokenmill.base.atomic import keep
from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.encoded import (
    CONTINUES,
    OPEN,
    OpenDocument,
    PartWriter,
    TextEncoder,
    read_part,
)
from tokenmill.preparation.workspace.receipt_log import Receipt, StageReceipts
from tokenmill.preparation.workspace.work_folder import leaves_receipt, read_once

EncodedPart = dict[str, Any]
JOINED_FILE = "joined.json"


@dataclass
class JoinedParts:
    """All parts in input order, and the documents that are in several of them."""

    parts: list[EncodedPart] = field(default_factory=list)
    spans: list[dict[str, Any]] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    """Documents dropped while joining, by reason."""
    counts: dict[str, int] = field(default_factory=dict)

    def spans_of(self, part: int) -> list[dict[str, Any]]:
        """The spanning documents that touch a part, at most two, each with that part's number."""
        # Spans are in order and overlap at most in one part: bisect for the neighbours.
        first = bisect_left(self.spans, part, key=lambda span: span["last"])
        near = self.spans[first : first + 2]
        return [{**span, "part": part} for span in near if span["first"] <= part]


@read_once(JOINED_FILE)
def load_joined(path: Path) -> JoinedParts:
    """The list of all parts of a preparation, by its output folder."""
    return JoinedParts(**orjson.loads(path.read_bytes()))


@leaves_receipt(lambda *_: ("joined", "all"))
def join_units(out_dir: str, _number: int = 0) -> Receipt:
    """Task: leave the list of all parts. One task, since a document may run through all units."""
    plan = load_plan(out_dir)
    units = [str(unit) for unit in range(len(plan.units))]
    logs = plan.workspace.receipts("units")
    logs.refresh()
    joined = join_edges(plan, StageReceipts(logs, units))
    keep(plan.workspace.root / JOINED_FILE, orjson.dumps(asdict(joined)))
    edges = [part["name"] for part in joined.parts if part["name"].endswith(".edge")]
    files = [f"../units/{name}.{kind}" for name in edges for kind in ("tokens", "rows")]
    return plan.workspace.leave_receipt("joined", "all", [f"../{JOINED_FILE}", *files], {})


def join_edges(plan: Plan, receipts: Iterable[Receipt]) -> JoinedParts:
    """Walk over the units in order; memory is that of one edge."""
    parts: list[EncodedPart] = []
    encoder = TextEncoder(plan)
    document: OpenDocument | None = None
    for unit, receipt in enumerate(receipts):
        edges, data = plan.workspace.path("units", f"{unit}.edges"), b""
        if receipt["head"] or receipt["tail"]:
            data = edges.read_bytes()
        head, tail = data[: receipt["head"]], data[receipt["head"] :]
        if document is not None:
            if not receipt["begins_inside"]:
                continue  # an empty unit: its text went to a neighbour
            document.had_text |= receipt["head_had_text"]
            document.pending = encoder.append(document, head)
            closes = receipt["head_closes"]
            if not receipt["head_complete"] and not closes:
                encoder.check_edge(document.pending)
                continue  # no place to cut in the whole unit
            if closes and not document.has_rows and encoder.is_empty(document.pending):
                encoder.drop_empty(had_text=document.had_text)
            else:
                flags = (CONTINUES if document.has_rows else 0) | (0 if closes else OPEN)
                parts.append(_encode_edge(plan, encoder, unit, document.pending, flags))
        parts += receipt["parts"]
        document = None
        if receipt["open"]:
            before = bytes.fromhex(receipt["before_tail"])
            had_text = receipt["tail_had_text"]
            document = OpenDocument(tail, receipt["open_has_rows"], before, had_text)
    return JoinedParts(parts, _spans(plan, parts), dict(encoder.dropped), dict(encoder.counts))


def _encode_edge(
    plan: Plan, encoder: TextEncoder, unit: int, text: bytes, flags: int
) -> EncodedPart:
    marks = np.array([flags], np.uint32)
    ids, ends = encoder.encode([text], marks)
    with PartWriter(plan, f"{unit}.edge") as part:
        part.add(ids, ends, marks, hashed=flags == 0)
    return part.facts()


def _spans(plan: Plan, parts: list[EncodedPart]) -> list[dict[str, Any]]:
    """Documents that are in several parts, each with the hash of all its ids."""
    spans: list[dict[str, Any]] = []
    first, state = 0, None
    for at, part in enumerate(parts):
        if state is not None:
            _hash_ids(plan, part, 0, state)
            if part["open"] and part["rows"] == 1:
                continue
            spans.append({"first": first, "last": at, "hash": state.hexdigest()})
            state = None
        if part["open"]:
            first, state = at, xxhash.xxh3_128()
            _hash_ids(plan, part, -1, state)
    return spans


def _hash_ids(plan: Plan, part: EncodedPart, row: int, state: "xxhash.xxh3_128") -> None:
    """Feed the ids of the first (0) or last (-1) row of a part, without begin and end of text."""
    rows = read_part(plan, part, "rows")
    length = int(rows["length"][row])
    tokens = read_part(plan, part, "tokens")
    ids = tokens[:length] if row == 0 else tokens[len(tokens) - length :]
    if not rows["flags"][row] & OPEN:
        ids = ids[:-1]
    if plan.begin_token_id is not None and not rows["flags"][row] & CONTINUES:
        ids = ids[1:]
    for start in range(0, len(ids), 1 << 20):
        state.update(ids[start : start + (1 << 20)].astype("<u4").data)
