"""Rows of our order in a `datasets.IterableDataset`, whose state is ours; TRL trains on them."""

import json
from itertools import islice

import pytest
import torch
from torch_data import numbered, with_documents
from trainer_packages import trainer

datasets = trainer("datasets")

from datasets.distributed import split_dataset_by_node  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from tokenmill.errors import OrderMismatchError  # noqa: E402
from tokenmill.torch import TorchLoader, WindowsDataset  # noqa: E402
from tokenmill.trainers.hf_datasets import hf_dataset  # noqa: E402

ORDER = {"block_size": 15, "seed": 2}
ROWS = 66  # windows of 15 in 1,000 tokens


def firsts(rows):
    return [int(row["input_ids"][0]) for row in rows]


def epochs(number):
    windows = WindowsDataset(numbered(), **ORDER)
    seen = []
    for epoch in range(number):
        windows.set_epoch(epoch)
        seen.append([int(inputs[0]) for inputs, _ in windows])
    return seen


def test_rows_are_those_of_our_order_in_every_epoch():
    dataset = hf_dataset(numbered(), **ORDER)
    seen = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        seen.append(firsts(dataset))

    assert isinstance(dataset, datasets.IterableDataset)
    assert seen == epochs(3)
    row = next(iter(dataset))
    assert row["input_ids"].tolist() == row["labels"].tolist()
    assert len(row["input_ids"]) == 16


@pytest.mark.parametrize("epoch", [0, 1])
def test_the_state_is_the_one_of_our_loaders(epoch):
    dataset = hf_dataset(numbered(), **ORDER)
    dataset.set_epoch(epoch)
    taken = firsts(islice(dataset, 24))
    state = json.loads(json.dumps(dataset.state_dict()))

    resumed = hf_dataset(numbered(), **ORDER)
    resumed.set_epoch(epoch)
    resumed.load_state_dict(state)
    loader = TorchLoader(numbered(), batch_size=4, **ORDER)
    loader.load_state_dict(state["examples_iterable"])

    assert taken + firsts(resumed) == epochs(2)[epoch]
    assert next(loader).inputs[:, 0].tolist() == epochs(2)[epoch][24:28]


def test_a_resume_reads_nothing_of_what_was_before(monkeypatch):
    dataset = hf_dataset(numbered(), **ORDER)
    next(islice(dataset, 60, None))
    resumed = hf_dataset(numbered(), **ORDER)
    resumed.load_state_dict(dataset.state_dict())
    read = []
    getitems = WindowsDataset.__getitems__
    monkeypatch.setattr(
        WindowsDataset, "__getitems__", lambda self, i: (read.extend(i), getitems(self, i))[1]
    )

    list(resumed)

    assert read == list(range(61, 66))


def test_a_state_of_another_order_is_refused():
    state = hf_dataset(numbered(), **ORDER).state_dict()
    other = hf_dataset(numbered(), block_size=15, seed=3)
    other.load_state_dict(state)

    with pytest.raises(OrderMismatchError, match="seed"):
        next(iter(other))


@pytest.mark.parametrize("after", [1, 2, 3])
def test_ranks_share_the_rows_and_resume_on_another_number(after):
    parts = [split_dataset_by_node(hf_dataset(numbered(), **ORDER), r, 2) for r in range(2)]
    taken = [firsts(islice(part, 12)) for part in parts]
    states = [part.state_dict()["examples_iterable"]["examples_iterable"] for part in parts]
    assert states[0] == states[1]  # it counts over all ranks

    rest = []
    for rank in range(after):
        part = split_dataset_by_node(hf_dataset(numbered(), **ORDER), rank, after)
        state = part.state_dict()
        state["examples_iterable"] = (
            {**state["examples_iterable"], "examples_iterable": states[0]}
            if after > 1
            else states[0]
        )
        part.load_state_dict(state)
        rest.append(firsts(part))

    interleaved = [row for pair in zip(*taken, strict=True) for row in pair]
    interleaved += [row for step in zip(*rest, strict=True) for row in step]
    assert interleaved == epochs(1)[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_it_survives_a_stateful_loader_with_workers(workers):
    stateful = trainer("torchdata.stateful_dataloader")

    def loader():
        dataset = hf_dataset(numbered(), **ORDER)
        dataset.set_epoch(1)
        return stateful.StatefulDataLoader(dataset, batch_size=6, num_workers=workers)

    first = loader()
    taken = [batch["input_ids"][:, 0].tolist() for batch in islice(first, 4)]
    second = loader()
    second.load_state_dict(first.state_dict())
    taken += [batch["input_ids"][:, 0].tolist() for batch in second]

    assert [row for batch in taken for row in batch] == epochs(2)[1]


def test_documents_give_positions_and_masked_labels():
    dataset = hf_dataset(with_documents(), documents=True, **ORDER)

    for row in dataset:
        ends = row["input_ids"][:-1] == 0
        assert (row["labels"][1:] == -100).tolist() == ends.tolist()
        assert (row["position_ids"][1:] == 0).tolist() == ends.tolist()


@pytest.mark.parametrize("items", ["pair", "window", "flash"])
def test_rows_without_names_and_whole_batches_are_refused(items):
    with pytest.raises(ValueError, match=f"items.*{items}"):
        hf_dataset(numbered(), items=items, **ORDER)


def sft(folder, *, steps, resume=None):
    """TRL's trainer for a tiny model; returns the first token of every row it trained on."""
    from tokenizers import Tokenizer, models
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    trl = trainer("trl")

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=1000, n_positions=16, n_embd=8, n_layer=1, n_head=1)
    )
    seen = []
    model.transformer.wte.register_forward_pre_hook(
        lambda _, ids: seen.append(ids[0][:, 0].tolist())
    )
    words = Tokenizer(models.WordLevel({"a": 0, "[PAD]": 1}, unk_token="a"))
    arguments = trl.SFTConfig(
        str(folder), max_steps=steps, save_steps=4, per_device_train_batch_size=4, use_cpu=True,
        report_to="none", disable_tqdm=True, logging_strategy="no", bf16=False,
        gradient_checkpointing=False,
    )  # fmt: skip
    trl.SFTTrainer(
        model,
        args=arguments,
        train_dataset=hf_dataset(numbered(), **ORDER),
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=words, pad_token="[PAD]", eos_token="a"
        ),
    ).train(resume_from_checkpoint=resume)
    return seen


@pytest.mark.filterwarnings("ignore")
def test_trl_trains_on_our_order_and_resumes_in_it(tmp_path):
    """66 rows are 16 batches and 2 rows: 20 steps run into the next epoch."""
    first, second = epochs(2)
    expected = [first[i : i + 4] for i in range(0, 66, 4)]
    expected += [second[i : i + 4] for i in range(0, 12, 4)]

    whole = sft(tmp_path / "run", steps=20)
    rest = sft(tmp_path / "run", steps=20, resume=str(tmp_path / "run" / "checkpoint-8"))

    assert whole == expected
    assert rest == expected[8:]


def test_a_plain_data_loader_takes_it():
    batches = list(DataLoader(hf_dataset(numbered(), **ORDER), batch_size=6))

    assert [row for batch in batches for row in batch["input_ids"][:, 0].tolist()] == epochs(1)[0]
