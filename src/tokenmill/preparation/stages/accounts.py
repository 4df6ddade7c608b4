"""What a preparation came to: the accounts, which must balance, and the summary for people.

Documents in = written + dropped, by reason; tokens encoded = written + dropped. The two sides are
counted in different places: what went in by the readers and the encoder, what came out by the
tables of the finished shards.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tokenmill.base.human import human_bytes, plural
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.decide import DROPPED, Decided
from tokenmill.preparation.stages.encode import encoded_units, load_parts
from tokenmill.preparation.stages.parts import Part, split_of
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.shards.manifest import FactsEntry, Manifest, ShardEntry, SplitEntry
from tokenmill.text.inputs.open_input import printable
from tokenmill.text.reading.bad_input import (
    DUPLICATE,
    HELD_OUT,
    IN_TRAIN,
    MOST_PLACES,
)
from tokenmill.text.reading.chunks import EXAMPLES
from tokenmill.text.reading.document_rules import CUT_TEXT_FILES
from tokenmill.tokens.tokenizer import LITERAL, note_on_literals

TEST_SETS = "test_sets"
_COUNTS = ("documents_in", "documents_written", "bytes_in", "lines_dropped", "texts_replaced")


@dataclass(frozen=True)
class PreparationOutcome:
    """What the stages made, ready to be published."""

    splits: dict[str, SplitEntry]
    accounts: dict[str, Any]
    documents_by_source: list[int]
    split: str
    """How the splits were made: by "hash", the "end" held out, only from "files", or "none"."""
    cut_documents: int
    """Documents that are in both splits, the held-out end having cut them in two."""
    bad_input: list[str]
    """The first places of input that was dropped or repaired, with the reason."""
    repeated_lines: list[str]
    """The first lines that were left out, being there before."""
    counts: Mapping[str, int]
    bytes_read: int = 0
    """Bytes of input that this run encoded."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        decided: Decided,
        receipts: Iterable[Receipt],
        facts: Iterable[Receipt],
        *,
        by_hash: bool,
    ) -> "PreparationOutcome":
        """Sum up what the stages left; `receipts` are those of the shards, `facts` of splits."""
        counts, dropped = Counter[str](), Counter[str]()
        by_source = [0] * len(plan.sources)  # documents
        lines: Counter[int] = Counter()  # of each source, in the units so far
        bad_input: list[str] = []
        repeated_lines: list[str] = []
        for where, unit in zip(plan.units, encoded_units(plan), strict=True):
            counts.update(unit.counts)
            dropped.update(unit.dropped)
            for source, number in zip(where.sources, unit.documents_by_source, strict=True):
                by_source[source] += number
            for place in unit.bad_input[: MOST_PLACES - len(bad_input)]:
                name = plan.sources[where.source + place.source].name
                shown = {
                    "line": f":{lines[where.source] + place.number}",
                    "byte": f" at byte {place.number:,}",
                    "row": f", row {place.number:,}",
                    "file": "",
                }
                bad_input.append(f"{name}{shown[place.kind]}: {place.reason}")
            lines[where.source] += unit.counts.get("lines", 0)
            repeated_lines += unit.repeated_lines[: EXAMPLES - len(repeated_lines)]
        splits: dict[str, list[ShardEntry]] = {}
        cut_documents = 0
        for shard in receipts:
            splits.setdefault(shard["split"], []).append(ShardEntry.from_json(shard["entry"]))
            cut_documents += shard["cut_document"]
        facts_of = {kept["split"]: FactsEntry.from_json(kept["entry"]) for kept in facts}
        split = "hash" if by_hash else "end"
        without = "files" if plan.held_out_splits else "none"
        return cls(
            splits={
                name: SplitEntry.of(tuple(entries), facts_of.get(name))
                for name, entries in splits.items()
            },
            accounts=_make_accounts(plan, counts, dropped, decided),
            documents_by_source=by_source,
            split=split if plan.settings.val_fraction > 0 else without,
            cut_documents=cut_documents,
            bad_input=bad_input,
            repeated_lines=repeated_lines,
            counts=counts,
        )

    def notes(self, plan: Plan) -> list[str]:
        found, settings = [], plan.settings
        counted = zip(plan.sources, self.documents_by_source, strict=True)
        were_cut = any(source.kind == "text" and number > 1 for source, number in counted)
        if settings.separator is not None and not were_cut:
            found.append(
                f"no text file was cut at the separator {settings.separator!r}: is it spelled as "
                "in the text?"
            )
        can_be_cut = settings.document_is == "file" and settings.separator is None
        can_be_cut &= any(source.kind == "text" for source in plan.sources)
        if self.split == "end" and "val" in self.splits:
            found.append(
                f"too few documents ({self.accounts['documents_written']:,}) to choose some for "
                f"validation: the last {settings.val_fraction:.0%} of the tokens are held out"
                + (f"; {CUT_TEXT_FILES} cuts a text file into documents" if can_be_cut else "")
            )
        found += note_on_literals(self.counts)
        if literal := self.accounts.get("literal_begin_token"):
            found.append(f"kept as text: the literal begin token of {plural(literal, 'document')}")
        if text_hash := self.accounts.get("text_hash"):
            found.append(f"every document has the same text as before (hash of all: {text_hash})")
        return found


def _make_accounts(
    plan: Plan, counts: Counter[str], dropped: Counter[str], decided: Decided
) -> dict[str, Any]:
    """What went in, and what became of it; `dropped` before documents were compared."""
    duplicates = decided.documents[:, DROPPED].tolist()
    goes_late = None
    if plan.settings.has_rules:
        from tokenmill.preparation.stages import removals

        goes_late = removals.rows_that_go
        dropped.update(removals.count_late(plan))
    for number, part in enumerate(load_parts(plan.workspace.place)):
        num_late = 0 if goes_late is None else int(goes_late(plan, number).sum())
        if duplicates[number] > num_late:
            dropped[why_dropped(plan, part)] += duplicates[number] - num_late
    tokens_dropped = int(decided.tokens[:, DROPPED].sum())
    accounts = {
        "bytes_in": counts["bytes_in"],
        "documents_in": counts["documents_in"],
        "documents_written": int(decided.documents.sum()) - sum(duplicates),
        "dropped": dict(sorted(dropped.items())),
        "lines_dropped": counts["lines_dropped"],
        "texts_replaced": counts["replaced"],
        "literal_end_of_text": counts[f"{LITERAL}{plan.tokenizer.end_of_text}"],
    }
    if "literal_begin_token" in counts:
        accounts["literal_begin_token"] = counts["literal_begin_token"]
    if "text_hash" in counts:
        accounts["text_hash"] = f"{counts['text_hash'] % (1 << 64):016x}"
    if plan.settings.has_rules:
        from tokenmill.preparation.stages.removed_record import rule_accounts

        accounts |= rule_accounts(plan)
    if plan.settings.decontaminate is not None:
        from tokenmill.preparation.stages.contamination import report_of

        accounts[TEST_SETS] = report_of(plan)
    accounts["tokens_written"] = int(decided.tokens.sum()) - tokens_dropped
    accounts["tokens_dropped"] = tokens_dropped
    return accounts


def why_dropped(plan: Plan, part: Part) -> str:
    """Return the reason for which documents of a part are dropped when all were compared."""
    if plan.settings.dedup in ("documents", "near"):
        return DUPLICATE
    return HELD_OUT if split_of(plan, part) is None else IN_TRAIN


def check_accounts(plan: Plan, outcome: PreparationOutcome) -> None:
    """Raise unless there is something to publish, and every document and token is accounted for."""
    accounts, splits = outcome.accounts, outcome.splits
    if not accounts["documents_written"]:
        plan.workspace.forget()
        reasons = [f"{number:,} {reason}" for reason, number in accounts["dropped"].items()]
        raise PrepareError(
            f"nothing is left to write of {plural(accounts['documents_in'], 'document')} "
            f"(dropped: {', '.join(reasons) or 'none'})",
            hint="nothing was written; are these the right files, and the right settings?",
        )
    documents = sum(split.num_documents for split in splits.values()) - outcome.cut_documents
    tokens = sum(split.num_tokens for split in splits.values())
    for what, left, right in (
        ("documents in", accounts["documents_in"], documents + sum(accounts["dropped"].values())),
        ("documents written", accounts["documents_written"], documents),
        ("tokens written", accounts["tokens_written"], tokens),
    ):
        if left != right:
            raise PrepareError(
                f"the accounts do not balance: {what} {left:,}, found {right:,}; {accounts}",
                hint="this is a fault of tokenmill, and nothing was published; please report it",
            )


@dataclass
class Summary:
    """The outcome; `notes` are sentences worth reading."""

    out_dir: str
    documents_in: int
    documents_written: int
    dropped: dict[str, int]
    train_tokens: int
    val_tokens: int
    train_shards: int
    val_shards: int
    bytes_in: int
    lines_dropped: int = 0
    texts_replaced: int = 0
    dtype: str = ""
    seconds: float = 0.0
    """Time that this run took."""
    bytes_read: int = 0
    """Bytes of input that this run encoded: not those of an earlier run that it resumed."""
    added: dict[str, Any] = field(default_factory=dict)
    """The accounts of this run alone, if it added to a dataset; all other numbers count both."""
    notes: list[str] = field(default_factory=list)
    bad_input: list[str] = field(default_factory=list)
    """The first places of input that was dropped or repaired, each with its reason."""
    changed_lines: list[str] = field(default_factory=list)
    """Three lines that cleaning changed, before and after."""
    repeated_lines: list[str] = field(default_factory=list)
    """Three of the lines that were dropped, being there before."""
    already_there: bool = False
    """The dataset was finished before: this run wrote nothing."""
    named_splits: dict[str, dict[str, int]] = field(default_factory=dict)
    """Tokens, documents and shards of each validation set that has a name, such as val_code."""

    @classmethod
    def of(cls, out_dir: str, manifest: Manifest, notes: list[str]) -> "Summary":
        """Read the outcome off the manifest."""
        accounts = manifest.accounts
        if manifest.is_packed:
            shards = manifest.shards
            plain = sum(file.num_bytes for shard in shards for file in shard.contents)
            there = sum(file.num_bytes for shard in shards for file in shard.files)
            size = f"{human_bytes(there)} on disk, {there / plain:.2f} of the plain size"
            notes = [*notes, f"compressed: {size}"]
        train, val = (manifest.splits.get(name, SplitEntry.of(())) for name in ("train", "val"))
        return cls(
            out_dir=out_dir,
            **{name: accounts[name] for name in _COUNTS},
            dropped=dict(accounts["dropped"]),
            train_tokens=train.num_tokens,
            val_tokens=val.num_tokens,
            train_shards=len(train.shards),
            val_shards=len(val.shards),
            dtype=manifest.dtype,
            notes=notes,
            named_splits={
                name: {
                    "tokens": split.num_tokens,
                    "documents": split.num_documents,
                    "shards": len(split.shards),
                }
                for name, split in manifest.splits.items()
                if name not in ("train", "val")
            },
        )

    def _repr_html_(self) -> str:
        from tokenmill.base.notebook import facts

        known = {"documents": self.documents_in, **self.dropped, "written": self.documents_written}
        tokens = {"train tokens": self.train_tokens, "val tokens": self.val_tokens}
        return facts(printable(self.out_dir), {**known, **tokens})

    def to_json(self) -> dict[str, Any]:
        """Plain values; a folder whose name is not UTF-8 is escaped, as in messages."""
        return {**asdict(self), "out_dir": printable(self.out_dir)}
