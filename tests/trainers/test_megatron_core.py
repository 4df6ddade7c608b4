"""Megatron reads samples by number; masks and positions are those that Megatron computes itself.

Its sampler is not in the package on PyPI. Its contract, written down: of every `data-parallel size
times micro batch` samples after those consumed, rank r takes the r-th run of `micro batch`.
"""

import itertools

import pytest
import torch
from torch.utils.data import DataLoader
from trainer_packages import trainer

import tokenmill
from tokenmill.torch import TorchLoader
from tokenmill.trainers.megatron_core import datasets_provider

LENGTH = 64


def single_sampler(total, consumed, micro_batch, rank, size):
    step = micro_batch * size
    for first in range(consumed, total - step + 1, step):
        yield list(range(first + rank * micro_batch, first + (rank + 1) * micro_batch))


def read(dataset, consumed, micro_batch, rank, size):
    """The rows of a data-parallel rank, as `build_pretraining_data_loader` reads them."""
    sampler = list(single_sampler(len(dataset), consumed, micro_batch, rank, size))
    return DataLoader(dataset, batch_sampler=sampler)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_run_resumes_on_any_data_parallel_size(corpus, size):
    """Three epochs are asked for; 40 samples were consumed on one rank."""
    data = tokenmill.open(corpus, "train")
    epoch = (data.num_tokens - 1) // LENGTH
    provide = datasets_provider(data, block_size=LENGTH, seed=5)
    train, *others = provide([3 * epoch, 0, None])
    order = TorchLoader(data, batch_size=8, block_size=LENGTH, seed=5)
    expected = [next(order).inputs.tolist() for _ in range(3 * epoch // 8)]

    parts = [read(train, 40, 8 // size, rank, size) for rank in range(size)]
    steps = [torch.cat([part["tokens"] for part in step]) for step in zip(*parts, strict=True)]

    assert provide.is_distributed
    assert others == [None, None]
    assert [step.tolist() for step in steps] == expected[5:]


def test_validation_is_in_order(corpus):
    val = tokenmill.open(corpus, "val")
    provide = datasets_provider(val, val, block_size=LENGTH, seed=5)

    _, valid, _ = provide([4, 4, 0])

    windows = [val.tokens(i * LENGTH, (i + 1) * LENGTH).tolist() for i in range(4)]
    assert [item["tokens"].tolist() for item in valid] == windows


def test_masks_and_positions_are_those_of_megatron(corpus):
    megatron = trainer("megatron.core.datasets.gpt_dataset")
    data = tokenmill.open(corpus, "train")
    train, *_ = datasets_provider(data, block_size=LENGTH, documents=True)([200, 0, 0])

    for item in itertools.islice(train, 200):
        _, loss_mask, position_ids = megatron._get_ltor_masks_and_position_ids(
            item["tokens"], data.end_of_text_id, True, False, True, False
        )
        assert torch.equal(item["position_ids"], position_ids)
        assert torch.equal(item["loss_mask"], loss_mask)
        assert item["loss_mask"].dtype == loss_mask.dtype
        assert (item["labels"] * loss_mask)[:-1].tolist() == (
            item["tokens"][1:] * loss_mask[:-1]
        ).tolist()


def test_an_item_has_the_fields_and_types_of_megatrons_own(corpus, tmp_path):
    """A GPTDataset over the same data, converted to Megatron's files."""
    gpt = trainer("megatron.core.datasets.gpt_dataset")
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from megatron.core.datasets.utils import Split

    class Tokenizer:
        eod = 50256
        pad = -1
        vocab_size = 50257
        unique_identifiers = {"name": "gpt2"}  # noqa: RUF012

    tokenmill.convert(corpus, tmp_path / "megatron", to="megatron")
    prefix = str(next((tmp_path / "megatron").rglob("*train*.idx"))).removesuffix(".idx")
    config = gpt.GPTDatasetConfig(
        random_seed=1, sequence_length=LENGTH, split="1,0,0", tokenizer=Tokenizer(),
        reset_position_ids=True, reset_attention_mask=False, eod_mask_loss=True,
        create_attention_mask=False, path_to_cache=str(tmp_path / "cache"),
    )  # fmt: skip
    files = IndexedDataset(prefix)
    documents = torch.arange(len(files.document_indices) - 1).numpy()
    theirs = gpt.GPTDataset(files, prefix, documents.astype("int32"), 10, Split.train, config)[0]

    provide = datasets_provider(tokenmill.open(corpus, "train"), block_size=LENGTH, documents=True)
    ours = provide([1, 0, 0])[0][0]

    assert {name: (t.shape, t.dtype) for name, t in ours.items()} == {
        name: (t.shape, t.dtype) for name, t in theirs.items()
    }
