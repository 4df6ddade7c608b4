"""The inputs of a dataset as its manifest records them: one by one, or, of many, by folder.

A manifest lists up to `MOST_LISTED` inputs. Of more, it names folders, each with the number of its
files, and a file next to it, `sources-HASH.jsonl`, lists all of them: so every file is known to be
in the dataset or not, and opening a dataset does not read a million names.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import orjson
import xxhash

from tokenmill.errors import CorruptShardError, FormatError
from tokenmill.shards.manifest import FileEntry, Manifest, SourceEntry

MOST_LISTED = 10_000
ReadFile = Callable[[FileEntry], bytes]
"""Reads a file of a dataset."""


def record(
    manifest: Manifest, sources: Sequence[SourceEntry], folder: str
) -> tuple[Manifest, bytes]:
    """Return the manifest with these sources, and the content of their list; empty for few.

    `folder` is where new files go inside the dataset.
    """
    if len(sources) <= MOST_LISTED:
        return replace(manifest, sources=tuple(sources), sources_file=None), b""
    data = b"".join(orjson.dumps(source.to_json()) + b"\n" for source in sources)
    name = f"{folder}sources-{xxhash.xxh3_64_hexdigest(data)}.jsonl"
    listed = FileEntry(name, len(data), xxhash.xxh3_128_hexdigest(data))
    return replace(manifest, sources=by_folder(sources), sources_file=listed), data


def all_sources(manifest: Manifest, read: ReadFile) -> Sequence[SourceEntry]:
    """Return every input file of a dataset."""
    if (file := manifest.sources_file) is None:
        return manifest.sources
    data = read(file)
    if (found := xxhash.xxh3_128_hexdigest(data)) != file.xxh3_128:
        raise CorruptShardError(
            f"{file.file} has the hash {found}; its manifest promises {file.xxh3_128} (xxh3-128)",
            hint="the list of inputs was changed or damaged; fetch it again",
        )
    try:
        lines = map(orjson.loads, data.splitlines())
        return [SourceEntry(line["name"], line["bytes"], line["documents"]) for line in lines]
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{file.file} is not a list of sources: {error}") from None


def by_folder(sources: Sequence[SourceEntry]) -> tuple[SourceEntry, ...]:
    """Join neighbours in one folder; at the greatest depth that gives at most `MOST_LISTED`."""
    deepest = max(source.name.count("/") for source in sources)
    for depth in range(deepest, 0, -1):
        found = _grouped(sources, depth)
        if len(found) <= MOST_LISTED:
            return found
    return _grouped(sources, 0)


def _grouped(sources: Iterable[SourceEntry], depth: int) -> tuple[SourceEntry, ...]:
    def folder_of(source: SourceEntry) -> str:
        return "".join(f"{part}/" for part in source.name.split("/")[:-1][:depth]) or "./"

    return tuple(_together(*group) for group in itertools.groupby(sources, folder_of))


def _together(folder: str, group: Iterable[SourceEntry]) -> SourceEntry:
    files = list(group)
    if len(files) == 1:
        return files[0]
    return SourceEntry(
        folder,
        sum(file.num_bytes for file in files),
        sum(file.num_documents for file in files),
        len(files),
    )
