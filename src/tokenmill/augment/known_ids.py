"""The ids that no augmentation touches, sentinels by their names, and ids drawn at random."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tokenmill.augment.row_random import below
from tokenmill.batches.batch_form import BatchForm
from tokenmill.dataset import TokenDataset


@dataclass(frozen=True)
class KnownIds:
    """What is known about the ids of the data that is augmented."""

    path: str
    """What errors call the data."""
    vocab_size: int | None
    names: Mapping[str, int]
    """Special tokens of the tokenizer, by how they are written."""
    special: tuple[int, ...]
    """All special ids, ascending."""
    padding: int
    """The id that fills up a row."""
    largest: int
    """The largest id that batches can hold; that of the vocabulary, if ids are checked."""

    @classmethod
    def of(
        cls, datasets: Sequence[TokenDataset], begin_token: int | None, form: BatchForm
    ) -> "KnownIds":
        """What these datasets, of one tokenizer, say; a loader puts in `begin_token`."""
        names: dict[str, int] = {}
        for data in datasets:
            names |= getattr(data.tokenizer, "special_ids", {})
        sizes = [data.vocab_size for data in datasets if data.vocab_size is not None]
        given = [id for data in datasets for id in (data.end_of_text_id, data.begin_token_id)]
        known = {id for id in (*names.values(), *given, begin_token) if id is not None}
        largest = int(np.iinfo(np.dtype(form.dtype)).max)
        vocab_size = min(sizes, default=None)
        limit = form.vocab_size or (vocab_size if form.check_ids else None)
        if limit is not None:
            largest = min(largest, limit - 1)
        return cls(
            path=datasets[0].path,
            vocab_size=vocab_size,
            names=names,
            special=tuple(sorted(known)),
            padding=datasets[0].end_of_text_id or 0,
            largest=largest,
        )

    def find(self, argument: str, given: int | None, names: Sequence[str], how: str = "") -> int:
        """The id that was given, or that of the one token of these names which the data has.

        `how` says in what other way it can be given.
        """
        if given is None:
            found = [name for name in names if name in self.names]
            if len(found) == 1:
                return self.names[found[0]]
            what = f"has several: {', '.join(found)}" if found else "names none that is known"
            raise ValueError(
                f"{argument} is not given, and the tokenizer of {self.path} {what} (its special "
                f"tokens: {', '.join(sorted(self.names)[:20]) or 'none'})\n\n"
                f"hint: give the id: {argument}=...{how}"
            )
        if not 0 <= given <= self.largest:
            raise ValueError(
                f"{argument} is {given:,}, which is not in the vocabulary of {self.path}: its ids "
                f"are 0 to {self.largest:,}\n\n"
                "hint: if the model knows more ids than the tokenizer, pass "
                "form=BatchForm(check_ids=False)"
            )
        return given

    def check_can_draw(self, what: str) -> None:
        """Refuse to draw ids at random from an unknown vocabulary; `what` would."""
        if self.vocab_size is None:
            raise ValueError(
                f"{what} draws ids at random, and nothing says how many ids {self.path} may hold"
                '\n\nhint: name the tokenizer: tokenmill.open(..., tokenizer="gpt2")'
            )

    def draw(self, bits: np.ndarray) -> np.ndarray:
        """For each of these 64 bits an id that is not special, each as likely."""
        assert self.vocab_size is not None
        numbers = below(bits, self.num_ordinary)
        ids: np.ndarray = numbers + np.searchsorted(self.ordinary_before, numbers, side="right")
        return ids

    @property
    def num_ordinary(self) -> int:
        """Ids of the vocabulary that are not special; 0 if its size is unknown."""
        return (self.vocab_size or 0) - len(self.ordinary_before)

    @functools.cached_property
    def ordinary_before(self) -> np.ndarray:
        """For each special id of the vocabulary, how many ids below it are not special."""
        special = np.array(self.special, np.int64)
        special = special[special < (self.vocab_size or 0)]
        return special - np.arange(len(special))

    @functools.cached_property
    def special_table(self) -> np.ndarray:
        """(largest special id + 2,) bool: True for special ids; the last stands for all above."""
        table = np.zeros(max(self.special, default=-1) + 2, bool)
        table[list(self.special)] = True
        return table

    def to_json(self) -> list[list[int]]:
        """The special ids as runs [first, last]: hundreds are often one run."""
        ids = np.array(self.special, np.int64)
        firsts = ids[np.diff(ids, prepend=-2) > 1]
        lasts = ids[np.diff(ids, append=np.iinfo(np.int64).max) > 1]
        return [list(run) for run in zip(firsts.tolist(), lasts.tolist(), strict=True)]
