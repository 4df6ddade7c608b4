"""Augmented batches as tensors: the same rows through every loader, and validation as it is."""

import numpy as np
import pytest
import torch
from special_tokens import write_tokenizer

import tokenmill
from tokenmill import BatchLoader, compat
from tokenmill.augment import DropTokens, FillInTheMiddle, MaskTokens, ReplaceTokens
from tokenmill.compat import create_dataloaders
from tokenmill.dataset import from_array
from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset

END, VOCAB = 90, 97
FIM = FillInTheMiddle(0.5, 0.5, prefix_id=92, middle_id=93, suffix_id=94)
LISTS = {
    "fim": [FIM],
    "drop": [FIM, DropTokens(0.1)],
    "replace": [ReplaceTokens(0.1)],
    "mask": [MaskTokens(0.2, mask_id=95)],
}


@pytest.fixture(scope="module")
def data():
    ids = np.random.default_rng(0).integers(0, END, 4000).astype(np.uint16)
    ids[49::50] = END
    return from_array(ids, end_of_text=END, vocab_size=VOCAB)


@pytest.mark.parametrize("name", LISTS)
def test_every_loader_gives_the_rows_of_the_batch_loader(data, name):
    options = {"block_size": 30, "seed": 3, "augment": LISTS[name]}
    batch = BatchLoader(data, batch_size=4, **options).batch(0)
    inputs, targets = (torch.from_numpy(np.ascontiguousarray(half)) for half in batch)
    items = WindowsDataset(data, **options).__getitems__(range(4))
    pairs = [
        tuple(next(TorchLoader(data, batch_size=4, **options))),
        next(iter(TokenDataLoader(data, batch_size=4, **options))),
        tuple(map(torch.stack, zip(*items, strict=True))),
    ]

    for i, pair in enumerate(pairs):
        assert torch.equal(pair[0], inputs), i
        assert torch.equal(pair[1], targets), i


def test_labels_for_models_of_transformers(data):
    """A causal model shifts labels itself; a masked one does not."""
    options = {"batch_size": 4, "block_size": 30}
    noisy = next(TorchLoader(data, augment=[ReplaceTokens(0.3)], **options))
    masked = next(TorchLoader(data, augment=[MaskTokens(0.3, mask_id=95)], **options))

    for_model = noisy.for_hugging_face()
    assert torch.equal(for_model["input_ids"][:, :-1], noisy.inputs)
    assert torch.equal(for_model["labels"][:, 1:], noisy.labels)
    assert masked.for_hugging_face()["input_ids"].shape == (4, 30)
    assert torch.equal(masked.for_hugging_face()["labels"], masked.labels)
    assert masked.num_targets == int((masked.labels != -100).sum())


@pytest.mark.parametrize("name", ["replace", "mask", "drop"])
def test_one_tensor_of_a_row_does_not_hold_its_labels(data, name):
    loader = TokenDataLoader(data, batch_size=4, block_size=30, items="window", augment=LISTS[name])

    with pytest.raises(ValueError, match="nor hold the labels"):
        next(iter(loader))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    tokenizer = str(write_tokenizer(folder / "tokenizer.json"))
    for name in ("train", "val"):
        (folder / f"{name}.txt").write_text("\n".join(f"Line {n} of {name}." for n in range(200)))
    texts = [folder / "train.txt", folder / "val.txt"]
    tokenmill.pretokenize(texts, tokenizer=tokenizer, separator="\n")
    return folder / "train.npy", folder / "val.npy"


def test_validation_is_never_augmented(files):
    options = {"batch_size": 4, "max_length": 30, "end_of_text": 256}
    plain = create_dataloaders(*files, **options)
    augmented = create_dataloaders(*files, **options, augment=[FIM])

    train, val = (next(iter(loader))["input_ids"] for loader in plain)
    augmented_train, augmented_val = (next(iter(loader))["input_ids"] for loader in augmented)
    assert torch.equal(val, augmented_val)
    assert not torch.equal(train, augmented_train)


def test_the_data_module_passes_it_on(files):
    pytest.importorskip("lightning.pytorch")
    module = compat.LocalDataModule(*files, batch_size=4, max_length=30, augment=[DropTokens(0.3)])

    assert (next(iter(module.train_dataloader()))["labels"] == -100).any()
    assert not (next(iter(module.val_dataloader()))["labels"] == -100).any()
