"""Batches in every form: labels, positions and masks agree with what documents say."""

import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader
from torch_data import numbered, with_documents

from tokenmill.augment import MaskTokens
from tokenmill.edits import Ban
from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset, loss_per_source

SHAPE = {"batch_size": 6, "block_size": 15, "seed": 3}
ROW = {"block_size": 15, "seed": 3}


def batch_of(data, **options):
    return next(TorchLoader(data, **SHAPE, **options))


def items_of(data, items, **options):
    return next(iter(TokenDataLoader(data, items=items, **SHAPE, **options)))


def tiny_llama(**options):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=1000, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=32, bos_token_id=None, eos_token_id=None,
        attn_implementation="eager", **options,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("rows", ["windows", "packed"])
def test_a_flat_row_has_the_loss_of_its_documents_one_by_one(rows):
    """transformers derives from the positions what flash attention takes from `cu_seq_lens`."""
    flat = items_of(with_documents(), "flash", documents=True, rows=rows)
    model = tiny_llama()
    ends = flat["cu_seq_lens_q"]

    whole = model(flat["input_ids"], position_ids=flat["position_ids"], use_cache=False).logits[0]

    alone = []
    for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        alone.append(model(flat["input_ids"][:, begin:end]).logits[0])
        assert flat["position_ids"][0, begin:end].tolist() == list(range(end - begin))
    torch.testing.assert_close(whole, torch.cat(alone))
    assert flat["max_length_q"] == flat["max_length_k"] == int(ends.diff().max())
    assert torch.equal(flat["cu_seq_lens_q"], flat["cu_seq_lens_k"])
    assert ends.dtype == torch.int32
    assert ends[-1] == flat["input_ids"].numel() == 6 * 16


@pytest.mark.parametrize("documents", [False, True])
def test_a_flat_row_trains_on_exactly_our_targets(documents):
    flat = items_of(with_documents(), "flash", documents=documents)
    batch = batch_of(with_documents(), documents=documents)

    shifted = flat["labels"][0, 1:]
    shifted = functional.pad(shifted, (0, 1), value=-100).view(6, 16)

    assert torch.equal(shifted[:, :-1], batch.labels)
    assert (shifted[:, -1] == -100).all()  # no row predicts the next one


def test_flash_is_refused_for_masked_models_and_as_rows():
    masked = TokenDataLoader(
        numbered(), items="flash", augment=[MaskTokens(0.3, mask_id=5, random=0)], **SHAPE
    )
    with pytest.raises(ValueError, match=r"flash.*causal models"):
        next(iter(masked))
    with pytest.raises(ValueError, match="items is 'flash'"):
        WindowsDataset(numbered(), items="flash", **ROW)


@pytest.mark.parametrize("documents", [False, True])
def test_megatron_has_ids_everywhere_and_says_in_a_mask_what_counts(documents):
    named = items_of(with_documents(), "megatron", documents=documents)
    batch = batch_of(with_documents(), documents=documents)

    counted = batch.labels != -100
    assert torch.equal(named["tokens"], batch.inputs)
    assert torch.equal(named["loss_mask"], counted.float())
    assert torch.equal(named["labels"], batch.targets * counted)
    expected = batch.positions if documents else torch.arange(15).expand(6, 15)
    assert torch.equal(named["position_ids"], expected.long())


@pytest.mark.parametrize("items", ["dict", "hugging_face", "megatron"])
def test_windows_by_number_know_documents_in_every_form(items):
    """Positions start again with each document, which id 0 ends; nothing is learned across."""
    windows = WindowsDataset(with_documents(), items=items, documents=True, **ROW)

    for row in (windows[i] for i in range(20)):
        ids = row["tokens" if items == "megatron" else "input_ids"][:15]
        begins = torch.cat([torch.tensor([True]), ids[:-1] == 0])
        labels = row["labels"][1:] if items == "hugging_face" else row["labels"]
        without = row["loss_mask"] == 0 if items == "megatron" else labels == -100
        assert torch.equal(row["position_ids"][:15] == 0, begins)
        assert torch.equal(without, ids == 0)
    whole = next(iter(DataLoader(windows, batch_size=4)))
    assert whole["position_ids"].shape == whole["labels"].shape


@pytest.mark.parametrize("items", ["pair", "window"])
@pytest.mark.parametrize("door", [TokenDataLoader, WindowsDataset])
def test_a_form_without_room_for_documents_is_refused(door, items):
    shape = SHAPE if door is TokenDataLoader else ROW

    with pytest.raises(ValueError, match=rf"(?s){items}.*documents=True.*hint: items=\"dict\""):
        door(with_documents(), items=items, documents=True, **shape)


@pytest.mark.parametrize("items", ["dict", "hugging_face", "flash", "megatron"])
@pytest.mark.parametrize("documents", [False, True])
def test_inputs_and_labels_are_two_tensors(items, documents):
    named = items_of(with_documents(), items, documents=documents)
    before = named["labels"].clone()

    named["tokens" if items == "megatron" else "input_ids"].zero_()

    assert torch.equal(named["labels"], before)


def banned(ignore_index):
    loader = TorchLoader(numbered(), ignore_index=ignore_index, **SHAPE)
    loader.edit(Ban(tokens=(300, 700)))
    return loader


def test_another_label_stands_wherever_there_is_no_loss():
    usual = {"documents": True, "rows": "packed"}
    for make in (
        lambda ignored: batch_of(with_documents(), ignore_index=ignored, **usual),
        lambda ignored: batch_of(with_documents(), ignore_index=ignored, documents=True),
        lambda ignored: batch_of(
            numbered(), ignore_index=ignored, augment=[MaskTokens(0.3, mask_id=5, random=0)]
        ),
        lambda ignored: next(banned(ignored)),
    ):
        theirs, ours = make(-1), make(-100)
        assert (ours.labels == -100).any()
        for one, other in ((theirs.labels, ours.labels), (theirs.targets, ours.targets)):
            assert torch.equal(one, other.masked_fill(other == -100, -1))


def test_its_losses_by_source_are_the_same():
    losses = torch.rand(6, 15)
    ours, theirs = (
        loss_per_source(losses, batch_of(with_documents(), rows="packed", ignore_index=i), 1)
        for i in (-100, -1)
    )

    assert torch.equal(torch.cat(ours), torch.cat(theirs))


def test_the_loss_of_nanogpt_ignores_what_has_none():
    batch = batch_of(with_documents(), rows="packed", ignore_index=-1)
    logits = torch.rand(6 * 15, 1000)
    _, targets = batch

    loss = functional.cross_entropy(logits, targets.view(-1), ignore_index=-1)

    every = functional.cross_entropy(logits, batch.targets.view(-1), reduction="none")
    torch.testing.assert_close(loss, every[batch.loss_mask.flatten()].mean())


@pytest.mark.parametrize("door", [TorchLoader, TokenDataLoader, WindowsDataset])
def test_a_token_id_is_refused_as_the_label_to_ignore(door):
    shape = ROW if door is WindowsDataset else SHAPE

    with pytest.raises(ValueError, match="ignore_index is 0, which is a token id"):
        door(numbered(), ignore_index=0, **shape)


@pytest.mark.parametrize("door", [TorchLoader, TokenDataLoader])
def test_a_data_loader_around_a_loader_of_batches_is_refused(door):
    loader = door(numbered(), epochs=1, **SHAPE)

    with pytest.raises(TypeError, match=rf"(?s){door.__name__} gives batches.*WindowsDataset"):
        next(iter(DataLoader(loader, batch_size=2)))
