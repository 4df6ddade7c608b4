"""A torchtitan data loader, for 0.3.0 and for the later versions whose data package uses Grain.

Both build a loader from a nested Config and give it the rank, the length and the rows. The state is
the same on all ranks, so that a run may resume on another number of them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenmill import dataset
from tokenmill.torch import TorchLoader

try:
    from torchtitan.components.data.loader import BaseDataLoader
except ImportError:  # 0.3.0
    from torchtitan.components.dataloader import BaseDataLoader


class TokenLoader(BaseDataLoader):  # type: ignore[misc]
    """Batches ({"input", "positions"}, labels): `TokenLoader.Config(path="data/corpus")`."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):  # type: ignore[misc]
        """`infinite=False` ends after one epoch. The others are those of `BatchLoader`."""

        path: str
        split: str = "train"
        seed: int = 0
        order: str = "shuffle"
        rows: str = "windows"
        documents: bool = True
        infinite: bool = True

    def __init__(
        self,
        config: Config,
        *,
        dp_world_size: int,
        dp_rank: int,
        seq_len: int = 0,
        local_batch_size: int = 0,
        max_context_length: int = 0,
        num_tokens_per_batch: int = 0,
        **_: Any,  # tokenizer, snapshot_every_n_steps
    ) -> None:
        length = seq_len or max_context_length  # 0.3.0 has the first, later ones the second
        self.loader = TorchLoader(
            dataset.open(config.path, config.split),
            batch_size=local_batch_size or num_tokens_per_batch // length,
            block_size=length,
            rank=dp_rank,
            world_size=dp_world_size,
            epochs=None if config.infinite else 1,
            seed=config.seed,
            order=config.order,
            rows=config.rows,
            documents=config.documents,
        )

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            yield {"input": batch.inputs, "positions": batch.position_ids}, batch.labels

    def state_dict(self) -> dict[str, Any]:
        # One value, since a checkpoint is loaded into the keys that a new loader has.
        return {"loader": json.dumps(self.loader.state_dict())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if state_dict:  # torchtitan gives an empty one where nothing was saved
            self.loader.load_state_dict(json.loads(state_dict["loader"]))

    def close(self) -> None:
        self.loader.close()
