"""Ids that a batch must not hold: below 0, beyond the vocabulary, too wide for the batch's type."""

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from tokenmill.batches.batch_form import BatchForm
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError


class IdCheck:
    """What readers look for among the ids of one dataset while they copy: see `IdLimit`."""

    def __init__(self, data: TokenDataset, form: BatchForm) -> None:
        self._data = data
        self._dtype = np.dtype(form.dtype)
        self._vocab_size = form.vocab_size
        self.end_of_text = None if data.has_forgotten else data.end_of_text_id
        self.comes_before = data.end_of_text_comes == "before"
        # Seen as unsigned, an id below 0 is huge: one look for the largest finds it as well.
        self.largest = int(np.iinfo(f"u{data.dtype.itemsize}").max)
        if form.check_ids or not np.can_cast(data.dtype, self._dtype):
            self.largest = min(int(np.iinfo(kind).max) for kind in (data.dtype, self._dtype))
        # Ids that were compared when they were written are taken as they are.
        if form.check_ids and not data.has_manifest and (largest := data.largest_id) is not None:
            self.largest = min(self.largest, largest)
        if form.vocab_size is not None:
            self.largest = min(self.largest, form.vocab_size - 1)

    def refuse(self, start: int, length: int) -> NoReturn:
        """Name the first wrong id among some tokens of the axis."""
        from tokenmill.batches.lookup import place_of

        data = self._data
        tokens = data.tokens(start, start + length)
        wrong = int((tokens.view(f"u{tokens.itemsize}") > self.largest).argmax())
        place = place_of(data, start + wrong)
        found = int(tokens[wrong])
        why = "which is below 0" if found < 0 else "which is not in its vocabulary"
        if found > np.iinfo(self._dtype).max:
            why = f"which {self._dtype} cannot hold"
        vocab_size = self._vocab_size or data.stated_vocab_size
        raise FormatError(
            f"{place.file} holds the id {found:,}, {why} (its token {place.offset:,}; vocabulary: "
            f"{'unknown' if vocab_size is None else f'{vocab_size:,} ids'})",
            hint="it is read with the wrong dtype, is of another tokenizer, or marks padding so: "
            "`tokenmill verify` looks at all three",
        )


def check_dtype(data: TokenDataset, dtype: npt.DTypeLike) -> None:
    """Refuse a dtype of batches that an id of this data might not fit into."""
    wanted = np.dtype(dtype)
    if np.can_cast(data.dtype, wanted, "safe"):
        return
    largest = int(np.iinfo(wanted).max)
    if data.vocab_size is None or data.vocab_size - 1 > largest:
        size = "unknown" if data.vocab_size is None else f"{data.vocab_size:,}"
        raise ValueError(
            f"dtype {wanted} holds ids up to {largest:,}, but {data.path} is stored as "
            f"{data.dtype} and its vocabulary size is {size}; use int64"
        )
