"""commit: the books must balance, then the manifest is written, last.

Documents in = written + dropped, by reason; tokens encoded = written + dropped. The two sides are
counted in different places: what went in by the readers and the encoder, what came out by the
tables of the finished shards.
"""

import os
import shlex
import urllib.parse
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenmill.base.atomic import new_file, sync_file, sync_folder
from tokenmill.errors import PrepareError
from tokenmill.preparation.inputs import hash_standard_input
from tokenmill.preparation.plan import Plan
from tokenmill.preparation.settings import Settings
from tokenmill.preparation.stages.decide import DUPLICATE
from tokenmill.preparation.stages.encoded_list import JoinedParts
from tokenmill.preparation.workspace.target import manifest_hash
from tokenmill.preparation.workspace.work_folder import STANDARD_INPUT
from tokenmill.shards.manifest import Manifest, Shard, SourceRecord, Split
from tokenmill.shards.manifest_maker import make_manifest, write_tokenizer_and_card
from tokenmill.text.reading.bad_input import MOST_PLACES


@dataclass(frozen=True)
class Outcome:
    """What the stages made, ready to be published."""

    splits: dict[str, Split]
    books: dict[str, Any]
    documents_by_source: list[int]
    by_hash: bool
    cut_documents: int
    """Documents that stand in both splits, the held-out end having cut them in two."""
    bad_input: list[str]
    """The first places of input that was dropped or mended, with the reason."""

    def split(self, settings: Settings) -> str:
        """How the splits were made, for the manifest."""
        if settings.val_fraction == 0:
            return "none"
        return "hash" if self.by_hash else "end"

    def _were_cut(self, plan: Plan) -> bool:
        """Whether any text file was read as more than one document."""
        counted = zip(plan.sources, self.documents_by_source, strict=True)
        return any(source.kind == "text" and documents > 1 for source, documents in counted)

    def notes(self, plan: Plan) -> list[str]:
        """Sentences for people."""
        found, settings = [], plan.settings
        if settings.separator is not None and not self._were_cut(plan):
            found.append(
                f"the separator {settings.separator!r} cut no text file in two: is it spelt as in "
                "the text?"
            )
        if settings.val_fraction > 0 and not self.by_hash and "val" in self.splits:
            found.append(
                f"too few documents ({self.books['documents_written']:,}) to choose some for "
                f"validation: the last {settings.val_fraction:.0%} of the tokens are held out"
            )
        if literal := self.books["literal_end_of_text"]:
            found.append(f"{literal:,} literal end-of-text strings in the text were kept as text")
        return found


def make_books(
    units: list[dict[str, Any]], edges: JoinedParts, fates: list[dict[str, Any]]
) -> dict[str, Any]:
    """What went in, and what became of it."""
    counts, dropped = Counter(edges.counts), Counter(edges.dropped)
    for unit in units:
        counts.update(unit["counts"])
        dropped.update(unit["dropped"])
        counts["lines_dropped"] += unit["dropped_lines"]
    duplicates = sum(part["documents"][DUPLICATE] for part in fates)
    if duplicates:
        dropped["duplicate"] += duplicates
    return {
        "bytes_in": counts["bytes_in"],
        "documents_in": counts["documents_in"],
        "documents_written": sum(sum(part["documents"][:2]) for part in fates),
        "dropped": dict(sorted(dropped.items())),
        "lines_dropped": counts["lines_dropped"],
        "texts_replaced": counts["replaced"],
        "literal_end_of_text": counts["literal_end_of_text"],
        "tokens_written": sum(sum(part["tokens"][:2]) for part in fates),
        "tokens_dropped": sum(part["tokens"][DUPLICATE] for part in fates),
    }


def tell_places(plan: Plan, units: list[dict[str, Any]]) -> list[str]:
    """Where the first bad inputs are, in the order of the inputs: as people look for them."""
    told: list[str] = []
    lines: Counter[int] = Counter()
    for unit, receipt in zip(plan.units, units, strict=True):
        name = plan.sources[unit.source].name
        for kind, number, reason in receipt["places"][: MOST_PLACES - len(told)]:
            where = {
                "line": f":{lines[unit.source] + number}",
                "byte": f" at byte {number:,}",
                "row": f", row {number:,}",
                "file": "",
            }
            told.append(f"{name}{where[kind]}: {reason}")
        lines[unit.source] += receipt["counts"].get("lines", 0)
    return told


def check_books(outcome: Outcome) -> None:
    """Raise unless every document and every token is accounted for."""
    books, splits = outcome.books, outcome.splits
    documents = sum(split.documents for split in splits.values()) - outcome.cut_documents
    tokens = sum(split.tokens for split in splits.values())
    for what, left, right in (
        ("documents in", books["documents_in"], documents + sum(books["dropped"].values())),
        ("documents written", books["documents_written"], documents),
        ("tokens written", books["tokens_written"], tokens),
    ):
        if left != right:
            raise PrepareError(
                f"the books do not balance: {what} {left:,}, accounted for {right:,}; {books}",
                hint="this is a fault of tokenmill, and nothing was published; please report it",
            )


def splits_of(receipts: list[dict[str, Any]]) -> dict[str, Split]:
    """The finished shards by split, in the order of their numbers."""
    splits: dict[str, list[Shard]] = {}
    for receipt in receipts:
        splits.setdefault(receipt["split"], []).append(Shard.from_json(receipt["entry"]))
    return {name: Split.of(tuple(found)) for name, found in splits.items()}


def commit(plan: Plan, previous: Manifest | None, outcome: Outcome) -> Manifest:
    """Write tokenizer, card and manifest, the last one last."""
    out = plan.workspace.out_dir
    state = (plan.workspace.root / "tokenizer.json").read_bytes()
    sources = tuple(
        SourceRecord(source.name, source.size, documents)
        for source, documents in zip(plan.sources, outcome.documents_by_source, strict=True)
    )
    manifest = make_manifest(
        plan.tokenizer,
        state,
        dtype=plan.dtype.name,
        tokens_per_shard=plan.settings.tokens_per_shard,
        splits=outcome.splits,
        sources=sources,
        settings=_record(plan, outcome),
        books=outcome.books,
    )
    if previous is not None:
        manifest = _together(previous, manifest)
    write_tokenizer_and_card(out, manifest, state, _command(plan))
    for name, split in outcome.splits.items() if plan.destination is None else ():
        for shard in split.shards:
            _make_last(out / shard.file)
            _make_last(out / shard.ends.file)
        sync_folder(out / name)
    with new_file(plan.workspace.published_file) as file:
        file.write(manifest_hash(manifest).encode())
    manifest.write(out)
    return manifest


def _record(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """What the result depends on: the settings, and which of many standard inputs it was."""
    record = {**plan.settings.to_record(), "split": outcome.split(plan.settings)}
    if piped := hash_standard_input(plan.workspace, plan.sources):
        record["standard_input"] = piped
    return record


def _make_last(path: Path) -> None:
    """Sync a file. One that does not reach the disk is removed, for the next run to make again:
    asked a second time, the kernel would say that all is well."""
    try:
        sync_file(path)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _together(before: Manifest, added: Manifest) -> Manifest:
    """The dataset that was there with the new shards, sources and counts after its own."""
    splits = dict(before.splits)
    for name, split in added.splits.items():
        splits[name] = Split.of(
            (*splits[name].shards, *split.shards) if name in splits else split.shards
        )
    books = {
        name: dict(Counter(value) + Counter(added.books[name]))
        if isinstance(value, dict)
        else value + added.books[name]
        for name, value in before.books.items()
    }
    return replace(
        before,
        splits=splits,
        sources=(*before.sources, *added.sources),
        settings={
            **before.settings,
            "added": [*before.settings.get("added", ()), dict(added.settings)],
        },
        books=books,
    )


def _command(plan: Plan) -> str:
    """The command that makes this dataset again, with the settings that are not the usual ones."""
    usual = Settings().to_record()
    flags = []
    for name, value in plan.settings.to_record().items():
        if value == usual[name]:
            continue
        if name == "normalize":
            flags.append("--no_normalize")
        else:
            flags.append(f"--{name} {_shell_word(str(value))}")
    inputs = [_input(source.name) for source in plan.sources[:8]]
    if hash_standard_input(plan.workspace, plan.sources):
        inputs = ["-" if name == STANDARD_INPUT else name for name in inputs]
    if len(plan.sources) > 8:
        inputs.append("...")
    return " ".join(["tokenmill prepare", *inputs, "-o OUT", *flags])


def _input(name: str) -> str:
    """A source as it is given on a command line: by the name of its file, never as a flag."""
    raw = urllib.parse.unquote_to_bytes(name)
    return _shell_word(os.fsdecode(b"./" + raw if raw.startswith(b"-") else raw))


def _shell_word(text: str) -> str:
    """Quoted for a shell; what cannot be printed is spelt as bash, zsh and others understand it."""
    if text.isprintable():
        return shlex.quote(text)
    spelt = [
        ("\\" + char if char in "\\'" else char)
        if char.isprintable()
        else "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
        for char in text
    ]
    return "$'" + "".join(spelt) + "'"
