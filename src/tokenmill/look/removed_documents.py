"""Documents that rules left out of a dataset, beside what was kept in their place.

The dataset has their places and reasons, not their text: that is read again from the inputs, each
from its beginning to the last document that is wanted of it. What was kept in another dataset
before this one was added to it is decoded from there.
"""

import os
import urllib.parse
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from tokenmill.base.address import is_remote
from tokenmill.base.suggest import one_of
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import FormatError, PrepareError
from tokenmill.shards.manifest import Manifest
from tokenmill.text.inputs.file_kind import make_source
from tokenmill.text.inputs.units import whole_file
from tokenmill.text.reading.chunks import ReadRules
from tokenmill.text.reading.read import read_unit

READ_RULES = ("document_is", "separator", "text_field", "on_bad_input", "long_line")


@dataclass(frozen=True)
class DocumentPlace:
    """Where a document is, and its text if it could be read."""

    source: str
    """The input; or the shard of the dataset in which the document ends."""
    document: int
    """Its number there, from 0."""
    text: bytes | None = None

    def __str__(self) -> str:
        return f"{self.source}, document {self.document:,}"

    def to_json(self) -> dict[str, Any]:
        text = None if self.text is None else self.text.decode("utf-8", "replace")
        return {"source": self.source, "document": self.document, "text": text}


@dataclass(frozen=True)
class RemovedDocument:
    """A document that was left out."""

    place: DocumentPlace
    why: str
    """`RULE: reason`, or `RULE`."""
    value: float | None
    """What the rule found."""
    kept: DocumentPlace | None = None
    """What was kept in its place, if anything was."""

    def to_json(self) -> dict[str, Any]:
        kept = None if self.kept is None else self.kept.to_json()
        return {**self.place.to_json(), "why": self.why, "value": self.value, "kept": kept}


def removed_documents(
    folder: str, *, why: str | None = None, count: int = 10, inputs: str = "."
) -> list[RemovedDocument]:
    """Return the first documents that were left out, by the rule `why` (`RULE`, or `RULE: reason`).

    `inputs` is the folder that the names of the inputs in the manifest begin in.
    """
    if is_remote(folder):
        raise ValueError(f"{folder} is in a store; copy the dataset here to see what was removed")
    manifest = Manifest.load(folder)
    names = _source_names(Path(folder), manifest)
    removed = list(islice(_recorded(Path(folder), manifest, names, why), count))
    wanted = defaultdict[str, dict[int, bytes | None]](dict)
    for document in removed:
        for place in filter(None, (document.place, document.kept)):
            wanted[place.source][place.document] = None
    shards = {shard.file for shard in manifest.shards}
    for name, texts in wanted.items():
        if name in shards:
            _decode(folder, manifest, name, texts)
        else:
            _read(Path(inputs), name, manifest, texts)

    def with_text(place: DocumentPlace) -> DocumentPlace:
        return replace(place, text=wanted[place.source][place.document])

    return [
        replace(each, place=with_text(each.place), kept=each.kept and with_text(each.kept))
        for each in removed
    ]


def _recorded(
    folder: Path, manifest: Manifest, names: list[str], why: str | None
) -> Iterator[RemovedDocument]:
    """Yield what the record of the dataset has, in the order of the input."""
    if manifest.removed is None:
        raise ValueError(
            f"{folder} has no record of removed documents\n\nhint: one is kept where documents "
            "are filtered, mapped, masked or compared: --filter, --map, --mask, --dedup near"
        )
    with open(folder / manifest.removed.file, "rb") as lines:
        try:
            reasons = orjson.loads(lines.readline())["reasons"]
            if why is not None:
                rules = {reason.partition(":")[0] for reason in reasons}
                one_of("why", why, sorted(rules | {*reasons}))
            for line in lines:
                source, document, reason, value, *kept = orjson.loads(line)
                if why in (None, reasons[reason], reasons[reason].partition(":")[0]):
                    place = DocumentPlace(names[source], document)
                    where = [names[w] if isinstance(w, int) else w for w in kept[:1]]
                    other = DocumentPlace(where[0], kept[1]) if kept else None
                    yield RemovedDocument(place, reasons[reason], value, other)
        except (orjson.JSONDecodeError, LookupError, TypeError) as error:
            raise FormatError(f"{manifest.removed.file} is damaged: {error}") from error


def _source_names(folder: Path, manifest: Manifest) -> list[str]:
    if manifest.sources_file is None:
        return [source.name for source in manifest.sources]
    lines = (folder / manifest.sources_file.file).read_bytes().splitlines()
    return [orjson.loads(line)["name"] for line in lines]


def _decode(folder: str, manifest: Manifest, shard: str, texts: dict[int, bytes | None]) -> None:
    """Fill in documents that end in a shard of the dataset."""
    for name, split in manifest.splits.items():
        first = 0
        for entry in split.shards:
            if entry.file == shard:
                data = open_dataset(folder, name)
                for number in texts:
                    start, stop = data.document_range(first + number)
                    texts[number] = data.tokenizer.decode(data.tokens(start, stop - 1))
                return
            first += entry.ends.num_documents


def _read(inputs: Path, name: str, manifest: Manifest, texts: dict[int, bytes | None]) -> None:
    """Fill in documents of one input; all stay None where it is not there."""
    path = os.fspath(inputs / os.fsdecode(urllib.parse.unquote_to_bytes(name)))
    try:
        source = make_source(path, name)
    except PrepareError:
        return
    known = {name: manifest.settings[name] for name in READ_RULES if name in manifest.settings}
    number = 0
    for chunk in read_unit(source, whole_file(source), ReadRules(**known)):
        for wanted in texts.keys() & range(number, number + len(chunk.texts)):
            texts[wanted] = chunk.texts[wanted - number]
        number += len(chunk.texts)
        if number > max(texts):
            return


def to_text(removed: Iterable[RemovedDocument], inputs: str, limit: int) -> Iterator[str]:
    """Yield what was removed and why, beside what was kept; at most `limit` characters of each."""
    for document in removed:
        value = "" if document.value is None else f" ({document.value:,.4g})"
        yield f"--- {document.place}: {document.why}{value}"
        yield _shown(document.place, inputs, limit)
        if document.kept is not None:
            yield f"+++ kept in its place: {document.kept}"
            yield _shown(document.kept, inputs, limit)


def _shown(place: DocumentPlace, inputs: str, limit: int) -> str:
    if place.text is None:
        where = f"its text is in {place.source}, which is not in the folder {inputs}"
        return f'({where}; name the right one: inputs="DIR")'
    text = place.text.decode("utf-8", "replace")
    rest = f" ... {len(text) - limit:,} more characters" if len(text) > limit else ""
    return text[:limit] + rest
