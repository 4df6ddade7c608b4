"""Hugging Face Trainer and Accelerate read our order, resume in it, and may not halve it."""

import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader
from torch_data import numbered, with_documents

from tokenmill.errors import MismatchError
from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset

transformers = pytest.importorskip("transformers")
data_loader = pytest.importorskip("accelerate.data_loader")

ORDER = {"block_size": 15, "seed": 2}


def tiny_gpt2():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=1000, n_positions=16, n_embd=8, n_layer=1, n_head=1, bos_token_id=0,
        eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.parametrize("documents", [False, True])
def test_a_hugging_face_model_computes_the_loss_over_exactly_our_targets(documents):
    model = tiny_gpt2().eval()
    data = with_documents() if documents else numbered()
    batch = next(TorchLoader(data, batch_size=4, block_size=15, documents=documents))

    theirs = model(**batch.for_hugging_face()).loss

    logits = model(batch.inputs).logits
    losses = functional.cross_entropy(logits.mT, batch.targets, reduction="none")
    ours = losses[batch.loss_mask].mean() if documents else losses.mean()
    torch.testing.assert_close(theirs, ours)


def test_shifted_labels_are_for_a_loss_of_ones_own():
    batch = next(TorchLoader(with_documents(), batch_size=4, block_size=15, documents=True))

    named = batch.as_dict()

    assert torch.equal(named["input_ids"], batch.inputs)
    counted = named["labels"] != -100
    assert torch.equal(counted, batch.loss_mask)
    assert torch.equal(named["labels"][counted], batch.targets[counted])


class Recorder(transformers.GPT2LMHeadModel):
    """A causal model that remembers the first token of every row it was trained on."""

    def forward(self, input_ids=None, labels=None, **options):
        if self.training:
            self.seen = [*getattr(self, "seen", []), input_ids[:, 0].tolist()]
        return super().forward(input_ids=input_ids, labels=labels, **options)


def train_with_trainer(folder, *, steps, resume=None, workers=0):
    model = Recorder(tiny_gpt2().config)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=4, save_steps=3,
        train_sampling_strategy="sequential", use_cpu=True, disable_tqdm=True, report_to="none",
        logging_strategy="no", dataloader_num_workers=workers, dataloader_drop_last=True,
    )  # fmt: skip
    windows = WindowsDataset(numbered(), items="hugging_face", **ORDER)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=windows)
    trainer.train(resume_from_checkpoint=resume)
    return model.seen


def test_trainer_reads_our_order_and_resumes_in_it(tmp_path):
    """66 windows: 16 steps of 4 are an epoch, so 18 steps run into the next one."""
    expected = []
    order = TorchLoader(numbered(), batch_size=4, epochs=1, rank=0, world_size=1, **ORDER)
    for _ in range(2):
        expected += [batch.inputs[:, 0].tolist() for batch in order]

    assert train_with_trainer(tmp_path / "a", steps=18) == expected[:18]
    again = train_with_trainer(
        tmp_path / "a", steps=18, resume=str(tmp_path / "a" / "checkpoint-6"), workers=2
    )
    assert again == expected[6:18]


@pytest.mark.parametrize("ranks", [2])
def test_accelerate_deals_our_order_to_its_ranks(ranks):
    """The rows of a step over all ranks are those of our own loader over all ranks."""
    windows = WindowsDataset(numbered(), **ORDER)
    parts = [
        data_loader.prepare_data_loader(
            DataLoader(windows, batch_size=4, drop_last=True),
            num_processes=ranks, process_index=r, put_on_device=False,
        )
        for r in range(ranks)
    ]  # fmt: skip

    for r, part in enumerate(parts):
        ours = TorchLoader(numbered(), batch_size=4, rank=r, world_size=ranks, **ORDER)
        rows = [inputs[:, 0].tolist() for inputs, _ in part]
        assert len(rows) == 66 // 8
        assert rows == [next(ours).inputs[:, 0].tolist() for _ in rows]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_loader_that_accelerate_takes_apart_is_refused_with_the_remedy(num_workers):
    """It would divide by rank what is this rank's share already; also after a first pass."""
    loader = TokenDataLoader(
        numbered(), batch_size=4, rank=0, world_size=2, num_workers=num_workers, **ORDER
    )
    next(iter(loader))
    wrapped = data_loader.prepare_data_loader(
        loader, num_processes=1, process_index=0, put_on_device=True
    )

    with pytest.raises(MismatchError, match=r"(?s)most of the data be lost.*WindowsDataset"):
        next(iter(wrapped))


def test_our_own_loader_passes_through_accelerate_untouched():
    accelerate = pytest.importorskip("accelerate")
    loader = TorchLoader(numbered(), batch_size=4, **ORDER)

    prepared = accelerate.Accelerator(cpu=True).prepare(loader)

    assert prepared is loader


def test_accelerate_skips_batches_of_a_windows_dataset():
    accelerate = pytest.importorskip("accelerate")
    windows = WindowsDataset(numbered(), **ORDER)
    plain = DataLoader(windows, batch_size=4, drop_last=True)
    prepared = accelerate.Accelerator(cpu=True).prepare(plain)
    ours = TorchLoader(numbered(), batch_size=4, epochs=1, **ORDER)
    expected = [inputs[:, 0].tolist() for inputs, _ in ours][5:]

    for loader in (plain, prepared):
        skipped = accelerate.skip_first_batches(loader, 5)
        assert [inputs[:, 0].tolist() for inputs, _ in skipped] == expected


def test_a_loader_whose_batches_accelerate_cannot_skip_says_which_one_to_use():
    accelerate = pytest.importorskip("accelerate")
    loader = TokenDataLoader(numbered(), batch_size=4, **ORDER)

    with pytest.raises(MismatchError, match="WindowsDataset with sequential sampling"):
        next(iter(accelerate.skip_first_batches(loader, 3)))
    with pytest.raises(AttributeError, match=r"load its state; or .* of tokenmill\.torch\.Windows"):
        accelerate.skip_first_batches(TorchLoader(numbered(), batch_size=4, **ORDER), 3)


def test_an_endless_loader_is_not_taken_for_rows():
    loader = TorchLoader(numbered(), batch_size=4, **ORDER)

    with pytest.raises(TypeError, match=r"a DataLoader takes rows: give it .*WindowsDataset"):
        next(iter(DataLoader(loader, batch_size=2)))
