"""The documents of a dataset: as text, where it is the input; as ids, where others are added to it.

As an input, each split is a source of kind `tokens`, and a unit of it is a range of documents. What
a dataset adds to its documents (the end-of-text id, a begin token) is taken off.
"""

import functools
import os
from collections.abc import Iterator, Sequence

import numpy as np

from tokenmill import dataset
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError, NotADatasetError, PrepareError, TokenmillError
from tokenmill.formats.held_out import ALL, stated
from tokenmill.preparation.planning.plan import PREVIOUS_FILE, Plan
from tokenmill.preparation.planning.val_inputs import name_of_split
from tokenmill.shards.manifest import Manifest
from tokenmill.text.inputs.open_input import TOKENS, Source
from tokenmill.text.inputs.sources import in_order
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.chunks import Chunk, ReadRules, RowReader

_BYTES_PER_TOKEN = 4  # of text, about
_TOKENS_AT_ONCE = 1 << 20


def find_splits(path: str | os.PathLike[str]) -> list[Source]:
    """Return the splits of the dataset at `path` as sources; validation sets are held out."""
    convert = f"tokenmill convert {path} OURS --to tokenmill --tokenizer gpt2"
    try:
        whole = dataset.open(path, "all")
    except FormatError as error:
        if "dtype=" in (error.hint or ""):  # which is here that of the new ids
            error.hint = f"state it once: {convert} --dtype uint16; then retokenize OURS"
        raise
    if whole.tokenizer is None:
        raise TokenmillError(
            f"nothing in {whole.path} names its tokenizer, so its ids cannot become text",
            hint=f"name it once: {convert}; then retokenize OURS",
        )
    if whole.columns:
        raise FormatError(
            f"{whole.path} has the columns {', '.join(whole.columns)}, with values for its tokens: "
            "other tokens have none",
            hint=f"leave them out: {convert} --columns none; then retokenize OURS",
        )
    splits = [name or ALL for name, files in stated(whole.files, whole.path).items() if files]
    sources = []
    for name in splits:
        data = open_split(os.path.abspath(path), name)
        held_out = None if name in ("train", ALL) else name_of_split(name)
        size = data.num_tokens * data.dtype.itemsize
        sources.append(
            Source(os.path.abspath(path), name, size, _stamp(data), TOKENS, None, held_out)
        )
    return in_order(sources)


def _stamp(data: TokenDataset) -> int:
    """Number that shows that the data is still the same, as the time of change does of a file."""
    return int(data.fingerprint[:15], 16)


@functools.lru_cache(maxsize=8)
def open_split(path: str, name: str, version: str | None = None) -> TokenDataset:
    """Open a split of which documents are read; another `version` is another dataset."""
    data = dataset.open(path, name)
    if not data.knows_documents:
        raise NotADatasetError(
            f"nothing in {data.path} says where documents end",
            hint="prepare its text again, or name the id: tokenmill convert with --end_of_text_id",
        )
    return data


def cut_into_documents(sources: Sequence[Source], unit_bytes: int) -> list[Unit]:
    """Units of whole documents, of about `unit_bytes` of text each."""
    units = []
    for number, source in enumerate(sources):
        data = open_split(source.path, source.name)
        places = range(0, data.num_tokens, max(1, unit_bytes // _BYTES_PER_TOKEN))
        firsts = sorted({data.document_at(place) for place in places})
        stops = [*firsts[1:], data.num_documents or 0]
        units += [Unit(number, *unit) for unit in zip(firsts, stops, strict=True)]
    return units


def read_documents(source: Source, unit: Unit, rules: ReadRules) -> Iterator[Chunk]:
    """Yield the texts of some documents, in chunks of about `rules.chunk_bytes`."""
    data = open_split(source.path, source.name)
    if (data.num_tokens * data.dtype.itemsize, _stamp(data)) != (source.size, source.mtime_ns):
        raise PrepareError(
            f"{source.path} changed since this preparation was started",
            hint="let whatever writes to it finish, then start again: overwrite=True",
            source=source.name,
        )
    start = data.document_range(unit.start)[0]
    stop = data.document_range(unit.stop - 1)[1]
    ends = data.document_ends(start, stop)
    if not len(ends) or ends[-1] < stop:
        ends = np.append(ends, stop)  # the last document has no end-of-text id
    most = max(1, rules.chunk_bytes // _BYTES_PER_TOKEN)
    reader = RowReader(source, rules)
    reader.what = "it"
    document = unit.start
    for begin, some in _in_chunks(start, ends, most):
        num_tokens = int(some[-1] - begin)
        reader.chunk = Chunk([], bytes_in=num_tokens * data.dtype.itemsize)
        if reader.chunk.bytes_in > rules.large_document_bytes:
            rules.on_large(True)
        for text in _texts(data, begin, some):
            reader.add(document, text)
            document += 1
        yield reader.finish()


def _in_chunks(start: int, ends: np.ndarray, most: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield where some documents begin, and their ends: up to `most` tokens, or one document."""
    while len(ends):
        count = max(1, int(ends.searchsorted(start + most, side="right")))
        yield start, ends[:count]
        start = int(ends[count - 1])
        ends = ends[count:]


def _texts(data: TokenDataset, start: int, ends: np.ndarray) -> list[bytes]:
    """Decode the documents with these ends, the first of which begins at `start`."""
    ids = data.tokens(start, int(ends[-1]))
    # Per document, positions in `ids`: of all it holds, and of its text alone.
    begins = np.concatenate([[0], ends[:-1] - start])
    stops = ends - start
    firsts = begins
    lasts = stops
    if data.end_of_text_id is not None:
        if data.end_of_text_comes == "before":
            firsts = firsts + (ids[firsts] == data.end_of_text_id)
        else:
            lasts = lasts - (ids[lasts - 1] == data.end_of_text_id)
    if data.begin_token_id is not None:
        begun = (firsts < lasts) & (ids[np.minimum(firsts, len(ids) - 1)] == data.begin_token_id)
        firsts = firsts + begun
    # What is taken off need not be an id of the tokenizer, which decodes it all the same.
    for before in (0, 1):  # at most an end-of-text id and a begin token
        ids[begins[firsts > begins + before] + before] = data.tokenizer.end_of_text_id
    ids[lasts[lasts < stops]] = data.tokenizer.end_of_text_id
    texts: list[bytes] = data.tokenizer.decode_batch(ids, lasts, firsts)
    return texts


def old_documents(plan: Plan, number: int) -> Iterator[np.ndarray]:
    """Yield the ids of every document that ends in shard `number`, whatever shards it starts in.

    They come without end-of-text, which a document lacks that the held-out end cut in two, and
    without begin token, which the second half of such a document lacks.
    """
    data, first, ends = _ends_in_shard(plan, number)
    for begin, some in _in_chunks(first, ends, _TOKENS_AT_ONCE):
        for ids in np.split(data.tokens(begin, int(some[-1])), some[:-1] - begin):
            yield _without_added(plan, ids)


def document_bounds(plan: Plan, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the documents that end in shard `number` begin and end, in tokens of their split."""
    _, first, ends = _ends_in_shard(plan, number)
    return np.append(first, ends)[:-1], ends


def own_ids(plan: Plan, number: int, start: int, stop: int) -> np.ndarray:
    """The ids of one of these documents."""
    return _without_added(plan, _ends_in_shard(plan, number)[0].tokens(start, stop))


def _ends_in_shard(plan: Plan, number: int) -> tuple[TokenDataset, int, np.ndarray]:
    """The split of a shard; where the first document that ends there begins, and all their ends."""
    manifest = Manifest.parse(plan.workspace.read(PREVIOUS_FILE))
    splits = {name: range(len(split.shards)) for name, split in manifest.splits.items()}
    name, shard = [(name, shard) for name, shards in splits.items() for shard in shards][number]
    data = open_split(plan.destination or str(plan.workspace.out_dir), name, plan.previous)
    start, stop = data.shard_starts[shard : shard + 2].tolist()
    first, _ = data.document_range(data.document_at(start))
    return data, first, data.document_ends(start, stop)


def _without_added(plan: Plan, ids: np.ndarray) -> np.ndarray:
    ids = ids[1:] if ids[0] == plan.begin_token_id else ids
    return ids[:-1] if len(ids) and ids[-1] == plan.tokenizer.end_of_text_id else ids
