"""The proof of a certificate (shards/forgotten.py): nothing is left, nothing else has changed."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash

from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.shards.forgotten import Forgotten
from tokenmill.shards.manifest import Manifest
from tokenmill.shards.verify import Finding

_AT_ONCE = 1 << 20  # tokens
_FIX = "the files are not those that were certified; restore all of them from one copy"


class Part(NamedTuple):
    """Some tokens of a shard with their columns, and which of them are forgotten."""

    ids: np.ndarray
    columns: dict[str, np.ndarray]
    is_forgotten: np.ndarray


class ForgottenTokens:
    """The tokens of some documents, without begin tokens, which say nothing."""

    def __init__(self, data: TokenDataset, documents: Collection[int]) -> None:
        self._data = data
        starts, self._stops = data.document_ranges(np.array(sorted(documents), np.int64))
        self._starts = starts + (data.begin_token_id is not None)

    def shards(self) -> set[int]:
        """Return the numbers of the shards that hold some of them."""
        low, high = self._data.shard_starts[:-1], self._data.shard_starts[1:]
        begun, ended = self._starts.searchsorted(high), self._stops.searchsorted(low, "right")
        return set(np.flatnonzero(begun > ended).tolist())

    def parts(self, shard: int) -> Iterator[Part]:
        """Yield all tokens of a shard in order; without `loss`, all are targets."""
        data = self._data
        start, stop = data.shard_starts[shard : shard + 2].tolist()
        for low in range(start, stop, _AT_ONCE):
            high = min(low + _AT_ONCE, stop)
            columns = {name: data.column(name, low, high) for name in data.columns}
            columns.setdefault("loss", np.ones(high - low, bool))
            tokens = np.arange(low, high)
            begun = self._starts.searchsorted(tokens, "right")
            is_forgotten = begun > self._stops.searchsorted(tokens, "right")
            yield Part(data.tokens(low, high), columns, is_forgotten)


class Rest:
    """Hashes of ids and columns without what is forgotten."""

    def __init__(self) -> None:
        self._digests: dict[str, xxhash.xxh3_128] = defaultdict(xxhash.xxh3_128)

    def add(self, part: Part) -> None:
        """Add the next tokens."""
        for name, values in {"ids": part.ids, **part.columns}.items():
            kept = np.ascontiguousarray(values[~part.is_forgotten])
            self._digests[name].update(kept.data)

    def to_json(self) -> dict[str, str]:
        """Return the hashes by name, as the certificate has them."""
        return {name: digest.hexdigest() for name, digest in self._digests.items()}


def differences(folder: str) -> Iterator[Finding]:
    """Compare a dataset, whose hashes are right, with its certificate."""
    manifest = Manifest.load(folder)
    record = Forgotten.load(Path(folder), manifest)
    for split, entry in manifest.splits.items():
        data = open_dataset(folder, split, backend="pread")
        tokens = ForgottenTokens(data, record.documents(split))
        for number in sorted(tokens.shards()):
            shard = entry.shards[number]
            rest = Rest()
            left = 0
            for part in tokens.parts(number):
                rest.add(part)
                left += int((part.ids[part.is_forgotten] != data.end_of_text_id).sum())
                left += sum(int(v[part.is_forgotten].any()) for v in part.columns.values())
            if left or rest.to_json() != record.rest.get(shard.file):
                expected = f"nothing of what was forgotten, and {record.rest.get(shard.file)}"
                found = f"{left:,} other values, and {rest.to_json()}"
                yield Finding(shard.on_disk.file, "forgotten", expected, found, _FIX)
