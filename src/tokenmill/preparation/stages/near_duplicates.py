"""Find near-duplicates among all documents, and choose what goes: four stages, in this order.

near-bands        each part of new documents, and each shard of the dataset that is added to, leaves
                  ten hashes a document: 8 bytes each, 40 bits of the hash and 24 for the document
near-candidates   each partition of all hashes leaves the pairs of documents that share one
near-pairs        each range of documents compares its candidates, run by run of words, and leaves
                  the pairs that are similar
near-choice       one task decides who stays, and leaves what goes from each unit

A document is compared as its tokens give it back. It is known by its place: the number of its shard
or part in the upper 32 bits, its position there in the lower ones. What was dropped before, being
an exact duplicate, takes no part; nor does a document of more than a million tokens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stages.duplicates import (
    HASHES_AT_ONCE,
    WORD,
    BucketWriter,
    Search,
    in_parts,
    read_bucket,
)
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.stages.placed_documents import (
    ORDINAL_BITS,
    PlacedDocuments,
    by_owner,
)
from tokenmill.preparation.stages.removals import (
    NEAR,
    numbers_of,
    rows_that_go,
    unit_of,
    write_rows,
)
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.workspace import Workspace
from tokenmill.text.filters.rule import REMOVED, in_shard
from tokenmill.text.near.candidates import pair_up, unique_pairs
from tokenmill.text.near.choose import choose_kept
from tokenmill.text.near.sketch import NUM_BANDS, hash_bands
from tokenmill.text.near.word_runs import compare

FOLDER = NEAR.folder
MAX_TOKENS = 1 << 20  # of a document that is compared; a pair of them takes about 100 MB
TOKENS_AT_ONCE = 1 << 20
PAIRS_AT_ONCE = 4096
POSITION_BITS = 24
POSITIONS = np.uint64((1 << POSITION_BITS) - 1)
PAIR_WORDS = 2
SIMILAR_WORDS = 3  # two places, and the bits of the similarity


@dataclass(frozen=True)
class NearSearch:
    """A search among the parts of a preparation and the shards of the dataset that is added to."""

    num_units: int
    """Shards and parts together."""
    first: int
    """Shards: parts are numbered after them."""
    num_bands: int = 0
    """Hashes of all documents, when they are known."""

    @property
    def partitions(self) -> int:
        """Partitions of all hashes, and ranges of documents; as many as for exact duplicates."""
        return Search("documents", self.num_units).partitions

    def write_bands(self, workspace: Workspace, number: int, bands: Iterator[np.ndarray]) -> int:
        """Write the hashes of a part or shard, (n, 2): hash and position; return how many."""
        with workspace.new(FOLDER, f"{number}.bands") as file:
            writer = BucketWriter(file, self.partitions)
            for rows in bands:
                if len(rows) and int(rows[-1, 1]) > int(POSITIONS):
                    raise PrepareError(
                        f"more than {int(POSITIONS):,} documents in one shard",
                        hint="make the dataset again with a smaller tokens_per_shard",
                    )
                high = rows[:, 0] >> np.uint64(32)
                partitions = (high * self.partitions >> np.uint64(32)).astype(np.int64)
                packed = rows[:, 0] << np.uint64(POSITION_BITS) | rows[:, 1]
                writer.add(partitions, packed[:, None])
            writer.finish()
        return writer.num_rows

    def read_bands(self, workspace: Workspace, number: int, partition: int) -> np.ndarray:
        """Return the hashes of one partition, (n, 2): hash and place of the document."""
        with workspace.open(FOLDER, f"{number}.bands") as file:
            packed = read_bucket(file, self.partitions, 1, partition)[:, 0]
        place = np.uint64(number << ORDINAL_BITS) | packed & POSITIONS
        return np.stack([packed >> np.uint64(POSITION_BITS), place], axis=1)

    def range_of(self, places: np.ndarray) -> np.ndarray:
        """The range that each place is in."""
        numbers = (places >> np.uint64(ORDINAL_BITS)).astype(np.int64)
        return numbers * self.partitions // self.num_units


def hash_part(out_dir: str, part: int, search: NearSearch, exact: Search) -> Receipt:
    """Task: leave the hashes of the documents of a part that are still there."""
    plan = load_plan(out_dir)
    is_wanted = np.ones(load_parts(out_dir)[part].num_documents, np.bool_)
    is_wanted[exact.repeated(plan.workspace, part)] = False
    if plan.finds_test_items:
        is_wanted &= ~rows_that_go(plan, part, but=NEAR)
    return _leave_bands(plan, search, search.first + part, is_wanted)


def hash_shard(out_dir: str, number: int, search: NearSearch) -> Receipt:
    """Task: leave the hashes of the documents that end in a shard of the dataset added to."""
    return _leave_bands(load_plan(out_dir), search, number, None)


def _leave_bands(
    plan: Plan, search: NearSearch, number: int, is_wanted: np.ndarray | None
) -> Receipt:
    documents = PlacedDocuments(plan, search.first)
    lengths = documents.lengths(number)
    chosen = lengths <= MAX_TOKENS if is_wanted is None else is_wanted & (lengths <= MAX_TOKENS)
    settings = plan.settings

    def bands() -> Iterator[np.ndarray]:
        for positions in in_runs(np.flatnonzero(chosen), lengths, TOKENS_AT_ONCE):
            texts = documents.texts_in(number, positions)
            hashes, counts = hash_bands(texts, settings.near_words, code=settings.near_code)
            has_words = counts > 0
            rows = np.empty((int(has_words.sum()) * NUM_BANDS, 2), WORD)
            rows[:, 0] = hashes[has_words].reshape(-1)
            rows[:, 1] = np.repeat(positions[has_words], NUM_BANDS)
            yield rows

    facts = {"bands": search.write_bands(plan.workspace, number, bands())}
    return plan.workspace.leave_receipt(FOLDER, str(number), [f"{number}.bands"], facts)


def in_runs(positions: np.ndarray, lengths: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Yield some positions after the other, of about `most` tokens together."""
    ends = np.cumsum(lengths[positions])
    cuts = np.searchsorted(ends, np.arange(most, int(ends[-1]) if len(ends) else 0, most)) + 1
    for start, stop in pairwise(np.unique([0, *cuts.tolist(), len(positions)]).tolist()):
        yield positions[start:stop]


def find_candidates(out_dir: str, partition: int, search: NearSearch) -> Receipt:
    """Task: leave the pairs of documents that share a hash of one partition."""
    plan = load_plan(out_dir)
    workspace = plan.workspace
    documents = PlacedDocuments(plan, search.first)
    num_parts = search.num_bands // search.partitions // HASHES_AT_ONCE + 1
    slices = workspace.each(
        lambda unit: search.read_bands(workspace, unit, partition), range(search.num_units)
    )
    name = f"candidates-{partition}"
    with workspace.new(FOLDER, f"{name}.pairs") as file:
        writer = BucketWriter(file, search.partitions)
        for rows in in_parts(slices, workspace.spool, num_parts, 2, lambda r: r[:, 0] % num_parts):
            pairs = pair_up(rows[:, 0], rows[:, 1], _ranks(plan, documents))
            writer.add(search.range_of(pairs[:, 0]), np.ascontiguousarray(pairs))
        writer.finish()
    return workspace.leave_receipt(FOLDER, name, [f"{name}.pairs"], {"pairs": writer.num_rows})


def _ranks(plan: Plan, documents: PlacedDocuments) -> Callable[[np.ndarray], np.ndarray]:
    """Return what gives documents their rank: those of lower rank stay.

    Documents of the dataset that is added to come first; then the longest, if they are to stay; and
    of equal ones the first.
    """

    def ranks(places: np.ndarray) -> np.ndarray:
        longest = plan.settings.near_keep == "longest"
        lengths = documents.lengths_at(places) if longest else np.zeros(len(places), np.int64)
        lengths[(places >> np.uint64(ORDINAL_BITS)) < documents.first] = MAX_TOKENS + 1
        order = np.lexsort((places, -lengths))
        ranked = np.empty(len(places), np.int64)
        ranked[order] = np.arange(len(places))
        return ranked

    return ranks


def compare_pairs(out_dir: str, number: int, search: NearSearch) -> Receipt:
    """Task: leave the pairs that are similar, of those whose later document is in one range."""
    plan = load_plan(out_dir)
    workspace = plan.workspace
    documents = PlacedDocuments(plan, search.first)

    def candidates(partition: int) -> np.ndarray:
        with workspace.open(FOLDER, f"candidates-{partition}.pairs") as file:
            return read_bucket(file, search.partitions, PAIR_WORDS, number)

    slices = list(workspace.each(candidates, range(search.partitions)))
    name = f"similar-{number}"
    num_compared = 0
    with workspace.new(FOLDER, f"{name}.pairs") as file:
        pairs = unique_pairs(np.concatenate(slices)[:, ::-1])  # by the earlier document
        slices.clear()
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            for some in _that_fit(documents, pairs[start : start + PAIRS_AT_ONCE]):
                file.write(_similar(plan, documents, some).data)
                num_compared += len(some)
        size = file.tell()
    facts = {"compared": num_compared, "similar": size // (SIMILAR_WORDS * WORD.itemsize)}
    return workspace.leave_receipt(FOLDER, name, [f"{name}.pairs"], facts)


def _that_fit(documents: PlacedDocuments, pairs: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the pairs, so many at a time that their texts fit into memory."""
    places, which = np.unique(pairs, return_inverse=True)
    lengths = documents.lengths_at(places)[which.reshape(-1, 2)].sum(axis=1)
    for run in in_runs(np.arange(len(pairs)), lengths, 2 * TOKENS_AT_ONCE):
        yield pairs[run]


def _similar(plan: Plan, documents: PlacedDocuments, pairs: np.ndarray) -> np.ndarray:
    """Compare pairs; return those that are similar, (n, 3): two places and the similarity."""
    settings = plan.settings
    places, which = np.unique(pairs, return_inverse=True)
    texts = documents.texts_at(places)
    shared, together = compare(
        texts, which.reshape(-1, 2), settings.near_words, code=settings.near_code
    )
    similarity = shared / together
    is_similar = similarity >= settings.near_similarity
    rows = np.empty((int(is_similar.sum()), SIMILAR_WORDS), WORD)
    rows[:, :2] = pairs[is_similar]
    rows[:, 2] = similarity[is_similar].view(WORD)
    return rows


def choose(out_dir: str, _number: int, search: NearSearch) -> Receipt:
    """Task: decide which documents go, and leave those of each unit."""
    plan = load_plan(out_dir)
    workspace = plan.workspace
    rows = np.concatenate([_read_similar(workspace, number) for number in range(search.partitions)])
    places, which = np.unique(rows[:, :2], return_inverse=True)
    ranked = _ranks(plan, PlacedDocuments(plan, search.first))(places)
    pairs = np.sort(ranked[which.reshape(-1, 2)], axis=1)
    similarity = rows[:, 2].copy().view(np.float64)
    kept = choose_kept(pairs, similarity, len(places))
    by_rank = places[np.argsort(ranked)]
    (gone,) = np.nonzero(kept >= 0)
    stays = by_rank[kept[gone]]
    values = np.zeros(len(places))
    is_chosen = kept[pairs[:, 1]] == pairs[:, 0]
    values[pairs[is_chosen, 1]] = similarity[is_chosen]
    removed = np.zeros(len(gone), REMOVED)
    removed["value"] = values[gone]
    units, removed["number"] = _in_units(plan, search, by_rank[gone])
    removed["kept_in"], removed["kept"] = _in_units(plan, search, stays)
    files = write_rows(plan, FOLDER, "removed", units, removed)
    return workspace.leave_receipt(FOLDER, "choice", files, {"removed": len(gone)})


def _read_similar(workspace: Workspace, number: int) -> np.ndarray:
    words = workspace.load(FOLDER, f"similar-{number}.pairs", WORD)
    return words.reshape(-1, SIMILAR_WORDS)


def _in_units(plan: Plan, search: NearSearch, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each place the unit and the number in it; or the shard, and the position there."""
    units = np.empty(len(places), np.int64)
    numbers = np.empty(len(places), np.int64)
    for owner, some, positions in by_owner(places):
        if owner < search.first:
            units[some], numbers[some] = in_shard(owner), positions
        else:
            units[some] = unit_of(plan, owner - search.first)
            numbers[some] = numbers_of(plan, owner - search.first)[positions]
    return units, numbers
