"""Documents of any part, and of any shard of the dataset that is added to, by their places."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.duplicates import ORDINAL_BITS
from tokenmill.preparation.stages.encode import load_parts

__all__ = ["ORDINAL_BITS", "PlacedDocuments"]
_AT_HAND = 64  # parts or shards whose bounds are kept: 16 bytes a document


class PlacedDocuments:
    """Reads documents; parts are numbered from `first` on, after the shards."""

    def __init__(self, plan: Plan, first: int) -> None:
        self._plan = plan
        self.first = first
        self._bounds = lru_cache(_AT_HAND)(self._find_bounds)

    def lengths(self, number: int) -> np.ndarray:
        """Tokens of each document of a part or shard."""
        starts, stops = self._bounds(number)
        lengths: np.ndarray = stops - starts
        return lengths

    def texts_in(self, number: int, positions: np.ndarray) -> list[bytes]:
        """The texts of some documents of one part or shard."""
        starts, stops = self._bounds(number)
        pairs = zip(starts[positions].tolist(), stops[positions].tolist(), strict=True)
        if number < self.first:
            from tokenmill.preparation.stages.token_inputs import own_ids

            ids = [own_ids(self._plan, number, *bounds) for bounds in pairs]
        else:
            part = load_parts(self._plan.workspace.place)[number - self.first]
            (tokens,) = map(np.asarray, part.token_arrays(self._plan))
            begin = self._plan.begin_token_id is not None
            ids = [tokens[start + begin : stop - 1] for start, stop in pairs]
        ends = np.cumsum([len(of_one) for of_one in ids], dtype=np.int64)
        return self._plan.tokenizer.decode_batch(np.concatenate(ids), ends) if ids else []

    def lengths_at(self, places: np.ndarray) -> np.ndarray:
        """Tokens of the documents at these places."""
        lengths = np.zeros(len(places), np.int64)
        for number, which, positions in by_owner(places):
            lengths[which] = self.lengths(number)[positions]
        return lengths

    def texts_at(self, places: np.ndarray) -> list[bytes]:
        """The texts of the documents at these places, which are sorted."""
        texts: list[bytes] = []
        for number, _, positions in by_owner(places):
            texts += self.texts_in(number, positions)
        return texts

    def _find_bounds(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Where documents begin and end, in the tokens of a part, or of the dataset."""
        if number < self.first:
            from tokenmill.preparation.stages.token_inputs import document_bounds

            return document_bounds(self._plan, number)
        part = load_parts(self._plan.workspace.place)[number - self.first]
        lengths = part.rows(self._plan)["length"].astype(np.int64)
        stops = np.cumsum(lengths)
        return stops - lengths, stops


def by_owner(places: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield a part or shard, which places are in it, and their positions there."""
    numbers = (places >> np.uint64(ORDINAL_BITS)).astype(np.int64)
    positions = (places & np.uint64((1 << ORDINAL_BITS) - 1)).astype(np.int64)
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    for which in np.split(order, cuts) if len(order) else ():
        yield int(numbers[which[0]]), which, positions[which]
