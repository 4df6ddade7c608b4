"""The checks of `verify` in green and red: the findings, and the checks that were not possible."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenmill.base.human import plural
from tokenmill.base.markup import Html, join, tag
from tokenmill.look.check import Check, verify
from tokenmill.look.inspect import OpenedData
from tokenmill.look.token_sample import Trap

MOST = 3  # traps of one kind that are written out
MARKS = {"good": "good", "bad": "fault", "warn": "note", "unasked": "not asked"}
# These end an examination: what is read wrongly is wrong in every other way too.
READING = ("header-as-tokens", "wrong-dtype", "byte-order", "unreadable", "damaged")


@dataclass(frozen=True)
class Question:
    """One line of the list: the findings that turn it red, and what must be known to ask it."""

    words: str
    names: tuple[str, ...]
    needs: str | None = None


QUESTIONS = (
    Question("Ids are read in their own type, no header as tokens", READING),
    Question("Shards are whole, none is there twice", ("cut-shard", "repeated-shard")),
    Question("No holes or tails of zeros or padding", ("zero-tail", "padded-tail", "zero-hole")),
    Question("Ids are below the vocabulary size", ("ids-beyond-vocabulary",), "vocabulary size"),
    Question("No long runs of one token", ("one-token",)),
    Question(
        "Documents end with one end-of-text",
        ("missing-end-of-text", "doubled-end-of-text"),
        "end-of-text id",
    ),
    Question("The tokenizer is the one that made the ids", ("wrong-tokenizer",), "tokenizer"),
    Question("Documents come in no sorted order", ("never-shuffled",), "foreign order"),
    Question("Train and val share no text", ("train-val-overlap",), "train and val"),
)


Answer = tuple[str, str, list[Trap]]
"""(`good`, `bad`, `warn` or `unasked`; words; the traps that explain it)."""


def health_of(opened: OpenedData, sample: int) -> tuple[list[Answer], int]:
    """All answers, and how many tokens were looked at: `sample` of each split at most."""
    splits = opened.splits
    result = verify(opened.path, sample=sample, **opened.open_options)
    data = next(iter(splits.values()))
    known = {
        "vocabulary size": data.vocab_size is not None,
        "end-of-text id": all(split.end_of_text_id is not None for split in splits.values()),
        "tokenizer": opened.tokenizer is not None,
        "train and val": "train" in splits and any(name.startswith("val") for name in splits),
    }
    damage = [
        Trap(f.what, f.file, f"expected {f.expected}, found {f.found}", f.remedy)
        for f in result.damaged
    ]
    what = "the manifest" if result.has_hashes else "what the files say of themselves"
    rows = [("bad" if damage else "good", f"Sizes of files agree with {what}", damage)]
    if made := opened.known.made:
        rows.append(_dropped(made.accounts))
    # Our own datasets keep the order of their sources: their windows are shuffled when read.
    asked_of = [q for q in QUESTIONS if q.needs != "foreign order" or not data.has_manifest]
    rows += [_answer(question, result, known) for question in asked_of]
    asked = {name for question in QUESTIONS for name in question.names}
    rows += [(_kind([f]), f.name, [f]) for f in result.traps if f.name not in asked]
    return rows, result.tokens_sampled


def _dropped(accounts: Mapping[str, Any]) -> Answer:
    """Text that was read and is not in the dataset, by the accounts of its manifest."""
    found = []
    if lines := accounts.get("lines_dropped"):
        found.append(f"{plural(lines, 'line')} seen before")
    if dropped := accounts.get("dropped"):
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(dropped.items()))
        read = accounts["documents_in"]
        found.append(f"{sum(dropped.values()):,} of {read:,} documents ({reasons})")
    words = "All that was read is in the dataset"
    if not found:
        return ("good" if accounts else "unasked", words, [])
    fix = "none, if cleaning and deduplication were meant; else prepare again without --dedup"
    return ("warn", words, [Trap("dropped", "accounts", "; ".join(found), fix, is_fault=False)])


def _answer(question: Question, result: Check, known: dict[str, bool]) -> Answer:
    found = [f for f in result.traps if f.name in question.names]
    if found:
        return (_kind(found), question.words, found)
    misread = any(f.name in READING for f in result.traps)
    if result.damaged or (misread and question.names is not READING):
        return ("unasked", f"{question.words} (not asked: see above)", [])
    if question.needs is not None and not known.get(question.needs, True):
        return ("unasked", f"{question.words} (not asked: {question.needs} not known)", [])
    return ("good", question.words, [])


def _kind(findings: list[Trap]) -> str:
    return "bad" if any(trap.is_fault for trap in findings) else "warn"


def health_mark(answers: list[Answer]) -> Html:
    """All answers in one."""
    kinds = Counter(kind for kind, _, _ in answers)
    kind = next((kind for kind in ("bad", "warn") if kinds[kind]), "good")
    words = "good" if kind == "good" else plural(kinds[kind], MARKS[kind])
    return tag("span", words, class_=f"mark large {kind}")


def health_list(answers: list[Answer]) -> Html:
    """The answers as a list."""
    lines = []
    for kind, question, findings in answers:
        more = len(findings) - MOST
        evidence = [
            join(
                tag("p", tag("b", f"{finding.name} "), f"{finding.where}: {finding.evidence}"),
                tag("p", f"Fix: {finding.fix}", class_="fix"),
            )
            for finding in findings[:MOST]
        ]
        if more > 0:
            evidence.append(tag("p", f"And {more:,} more; `tokenmill verify` names them all."))
        mark = tag("span", MARKS[kind], class_=f"mark {kind}")
        lines.append(tag("li", mark, tag("span", question), *evidence))
    return tag("ul", *lines, class_="health")
