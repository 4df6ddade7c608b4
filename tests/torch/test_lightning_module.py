"""TokenDataModule: any dataset in Lightning, resumed exactly; what cannot be exact is refused."""

import importlib.util
import itertools
import sys

import pytest
import torch
from torch_data import numbered, with_documents

lightning = pytest.importorskip("lightning.pytorch")

from tokenmill.torch import TokenDataLoader, TorchLoader  # noqa: E402 - after Lightning
from tokenmill.torch.lightning import TokenDataModule  # noqa: E402

SHAPE = {"batch_size": 4, "block_size": 16, "seed": 9}


class Recorder(lightning.LightningModule):
    """Remembers the first token of the rows of each step."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen, self.seen_in_validation = [], []

    def training_step(self, batch, _):
        self.seen.append(batch["input_ids"][:, 0].tolist())
        return self.weight * batch["input_ids"].float().mean()

    def validation_step(self, batch, _):
        self.seen_in_validation.append(batch["input_ids"][:, 0].tolist())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(folder, data, *, steps, checkpoint=None):
    model = Recorder()
    saving = lightning.callbacks.ModelCheckpoint(
        folder, every_n_train_steps=5, save_top_k=-1, filename="{step}"
    )
    trainer = lightning.Trainer(
        max_steps=steps, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder, callbacks=[saving],
    )  # fmt: skip
    loaders = {"train_dataloaders": data} if isinstance(data, TokenDataLoader) else {}
    module = {} if loaders else {"datamodule": data}
    trainer.fit(model, ckpt_path=checkpoint, **loaders, **module)
    return model


def order():
    loader = TorchLoader(numbered(), epochs=1, **SHAPE)
    return [batch.inputs[:, 0].tolist() for _ in range(2) for batch in loader]


@pytest.mark.filterwarnings("ignore")
def test_a_run_resumes_in_mid_epoch_and_validates_in_order(tmp_path):
    val = numbered(90)  # 5 windows of 16: less than two batches
    first = fit(tmp_path, TokenDataModule(numbered(), val, **SHAPE), steps=18)
    rest = fit(
        tmp_path,
        TokenDataModule(numbered(), val, **SHAPE),
        steps=18,
        checkpoint=tmp_path / "step=10.ckpt",
    )

    assert first.seen == order()[:18]
    assert rest.seen == order()[10:18]
    assert first.seen_in_validation[-1] == [0, 16, 32, 48]


@pytest.mark.filterwarnings("ignore")
def test_validation_data_may_be_missing(tmp_path):
    model = fit(tmp_path, TokenDataModule(numbered(), **SHAPE), steps=3)

    assert model.seen == order()[:3]
    assert model.seen_in_validation == []


def test_an_endless_loader_is_refused_by_name():
    with pytest.raises(ValueError, match="epochs=None: Lightning fetches one batch ahead"):
        TokenDataModule(numbered(), epochs=None, **SHAPE)


@pytest.mark.filterwarnings("ignore")
def test_why_it_is_refused(tmp_path):
    """An endless loader in Lightning: the batch that it held at the checkpoint is lost.

    If this fails, Lightning has changed: endless loaders can then be taken.
    """
    endless = {"epochs": None, "items": "dict", **SHAPE}
    fit(tmp_path, TokenDataLoader(numbered(), **endless), steps=10)
    rest = fit(
        tmp_path,
        TokenDataLoader(numbered(), **endless),
        steps=10,
        checkpoint=tmp_path / "step=5.ckpt",
    )

    assert rest.seen == order()[6:11]


def test_options_reach_the_loaders_that_they_are_for():
    module = TokenDataModule(
        with_documents(), with_documents(), items="batch", documents=True, rows="packed", **SHAPE
    )

    train, val = (
        next(iter(loader)) for loader in (module.train_dataloader(), module.val_dataloader())
    )

    assert train.masks_targets
    assert not val.masks_targets
    assert val.positions is not None
    assert val.inputs[:, 1].tolist() == [1, 17, 33, 49]


@pytest.mark.parametrize(("wrong", "named"), [("data/val", "data/val"), (5, "5")])
def test_what_is_no_dataset_is_refused(wrong, named):
    module = TokenDataModule(numbered(), wrong, **SHAPE)

    with pytest.raises(TypeError, match=rf"data is '?{named}'?; expected a TokenDataset"):
        module.val_dataloader()


def test_the_module_is_built_on_the_lightning_that_was_imported(monkeypatch):
    """A fresh copy of our module, in a process where only the other package is imported."""
    other = pytest.importorskip("pytorch_lightning")
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    found = importlib.util.find_spec("tokenmill.torch.lightning")
    fresh = importlib.util.module_from_spec(found)

    found.loader.exec_module(fresh)

    assert issubclass(TokenDataModule, lightning.LightningDataModule)
    assert issubclass(fresh.TokenDataModule, other.LightningDataModule)


def test_all_loaders_are_opened_once():
    module = TokenDataModule(numbered(), **SHAPE)

    batches = list(itertools.islice(module.train_dataloader(), 3))

    assert len(batches) == 3
    assert module.train_dataloader().state_dict()["samples"] == 12
