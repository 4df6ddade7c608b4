"""The two loaders of nanochat's scripts/base_train.py, reading a tokenmill dataset.

nanochat trains on a batch that it fetched a step earlier, and saves the state that came with it.
Here that state resumes exactly at this batch, on any number of ranks.
"""

from collections.abc import Callable, Iterator
from typing import Any, Unpack

from tokenmill import dataset
from tokenmill.batches.run import LoaderKeywords
from tokenmill.torch import TorchLoader

Loader = Callable[..., Iterator[Any]]


def loaders(path: dataset.Where, **options: Unpack[LoaderKeywords]) -> tuple[Loader, Loader]:
    """Return nanochat's loader with state and the one without; it calls them as its own.

    Targets without a loss are -1. `options` are for `TorchLoader`: with rows="packed" and
    begin_token rows begin with a document, as in nanochat. Validation is in order.
    """

    def with_state(
        tokenizer: Any,
        B: int,  # noqa: N803 - nanochat's names
        T: int,  # noqa: N803
        split: str,
        device: Any = "cuda",
        resume_state_dict: dict[str, Any] | None = None,
        **_: Any,  # how it would tokenize
    ) -> Iterator[Any]:
        loader = TorchLoader(
            dataset.open(path, split),
            batch_size=B,
            block_size=T,
            device=device,
            vocab_size=tokenizer.get_vocab_size(),
            ignore_index=-1,
            **(options if split == "train" else {**options, "order": "sequential"}),
        )
        if resume_state_dict is not None:
            loader.load_state_dict(resume_state_dict)
        for (inputs, targets), state in loader.with_state():
            # Its log shows these three: the epoch, and the place in it.
            shown = {"epoch": loader.epoch + 1, "pq_idx": 0, "rg_idx": loader.step - 1}
            yield inputs, targets, {**state, **shown}

    def without_state(*arguments: Any, **keywords: Any) -> Iterator[Any]:
        for inputs, targets, _ in with_state(*arguments, **keywords):
            yield inputs, targets

    return with_state, without_state
