"""Join what units left open: encode the text between two units, and list all parts in order.

Most units end where a document ends, and there is nothing to do. A document larger than a unit
leaves a tail here and a head there; together they are a few words, encoded now, as a part of their
own. The list of parts, with these in their places, is the whole dataset in input order.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xxhash

from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.encode import (
    EMPTIED,
    EMPTY,
    check_edge,
    count_literals,
    encode_checked,
)
from tokenmill.preparation.stages.encoded import CONTINUES, OPEN, PartWriter, read_rows, read_tokens
from tokenmill.preparation.stages.encoded_list import FILE_NAME as JOINED
from tokenmill.preparation.stages.encoded_list import JoinedParts, keep_joined
from tokenmill.preparation.workspace.task import leaves_receipt
from tokenmill.text.cleaning.clean import join_edge

Part = dict[str, Any]


@dataclass
class JoinedUnits:
    """All parts in order, and the documents that stand in more than one."""

    parts: list[Part] = field(default_factory=list)
    spans: list[dict[str, Any]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class _Open:
    """The document that the units so far left open."""

    text: bytes
    has_rows: bool
    before: bytes
    had_text: bool
    """Before repeated lines were dropped."""

    def and_then(self, head: bytes, *, normalize: bool) -> bytes:
        """Its text that is not encoded yet, with the head of the next unit."""
        return self.text + (join_edge(self.before + self.text, head) if normalize else head)


@leaves_receipt(lambda _: ("joined", "all"))
def join_units(out_dir: str) -> dict[str, Any]:
    """Task: leave the list of all parts. One task, since a document may run through all units."""
    plan = load_plan(out_dir)
    receipts = [plan.workspace.receipt("units", str(unit)) for unit in range(len(plan.units))]
    found = [receipt for receipt in receipts if receipt is not None]
    assert len(found) == len(receipts), f"unit {receipts.index(None)} has no receipt"
    joined = join_edges(plan, found)
    keep_joined(
        plan.workspace,
        JoinedParts(joined.parts, joined.spans, dict(joined.dropped), dict(joined.counts)),
    )
    edges = [part["name"] for part in joined.parts if part["name"].endswith(".edge")]
    files = [f"../units/{name}.{kind}" for name in edges for kind in ("tokens", "rows")]
    return plan.workspace.leave_receipt("joined", "all", [f"../{JOINED}", *files], {})


def join_edges(plan: Plan, receipts: list[dict[str, Any]]) -> JoinedUnits:
    """Walk over the units in order; memory is that of one edge."""
    joined = JoinedUnits()
    document: _Open | None = None
    for unit, receipt in enumerate(receipts):
        head, tail = _texts(plan, unit, receipt)
        if document is not None:
            if not receipt["begins_inside"]:
                continue  # an empty unit: its text went to a neighbour
            document.had_text |= receipt["head_had_text"]
            document.text = document.and_then(head, normalize=plan.settings.normalize)
            if not receipt["head_complete"] and not receipt["head_closes"]:
                check_edge(document.text)
                continue  # no place to cut in the whole unit
            closes = receipt["head_closes"]
            if closes and not document.has_rows and _is_empty(plan, document.text):
                joined.dropped[EMPTIED if document.had_text else EMPTY] += 1
            else:
                flags = (CONTINUES if document.has_rows else 0) | (0 if closes else OPEN)
                joined.parts.append(_encode_edge(plan, unit, document.text, flags, joined.counts))
        joined.parts += receipt["parts"]
        document = None
        if receipt["open"]:
            before = bytes.fromhex(receipt["before_tail"])
            document = _Open(tail, receipt["open_has_rows"], before, receipt["tail_had_text"])
    joined.spans = _spans(plan, joined.parts)
    return joined


def _is_empty(plan: Plan, text: bytes) -> bool:
    return not text or (plan.settings.normalize and text.isspace())


def _texts(plan: Plan, unit: int, receipt: dict[str, Any]) -> tuple[bytes, bytes]:
    if not receipt["head"] and not receipt["tail"]:
        return b"", b""
    data = plan.workspace.path("units", f"{unit}.edges").read_bytes()
    return data[: receipt["head"]], data[receipt["head"] :]


def _encode_edge(plan: Plan, unit: int, text: bytes, flags: int, counts: Counter[str]) -> Part:
    ids, ends = encode_checked(plan, [text])
    end_of_text = plan.tokenizer.end_of_text_id
    with PartWriter(plan.workspace, f"{unit}.edge", plan.dtype, end_of_text) as part:
        part.add(ids, ends, np.array([flags], np.uint32), hashed=flags == 0)
    counts["literal_end_of_text"] += count_literals(plan.tokenizer, [text])
    return part.facts()


def _spans(plan: Plan, parts: list[Part]) -> list[dict[str, Any]]:
    """Documents that stand in several parts, each with the hash of all its ids."""
    spans: list[dict[str, Any]] = []
    at = 0
    while at < len(parts):
        if not parts[at]["open"]:
            at += 1
            continue
        first, state = at, xxhash.xxh3_128()
        _hash_ids(plan, parts[at], -1, state)
        at += 1
        while parts[at]["rows"] == 1 and parts[at]["open"]:
            _hash_ids(plan, parts[at], 0, state)
            at += 1
        _hash_ids(plan, parts[at], 0, state)
        spans.append({"first": first, "last": at, "hash": state.hexdigest()})
    return spans


def _hash_ids(plan: Plan, part: Part, row: int, state: "xxhash.xxh3_128") -> None:
    """Feed the ids of the first (0) or last (-1) row of a part, without end-of-text."""
    rows = read_rows(plan.workspace, part)
    length = int(rows["length"][row])
    tokens = read_tokens(plan.workspace, part, plan.dtype)
    ids = tokens[:length] if row == 0 else tokens[len(tokens) - length :]
    if not rows["flags"][row] & OPEN:
        ids = ids[:-1]
    for start in range(0, len(ids), 1 << 20):
        state.update(ids[start : start + (1 << 20)].astype("<u4").data)
