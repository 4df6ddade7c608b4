"""Lightning stores the loader's position in its checkpoints."""

import inspect

import numpy as np
import pytest
import torch

lightning = pytest.importorskip("lightning.pytorch")

from tokenmill.compat import LocalDataModule, create_dataloaders  # noqa: E402 - after Lightning
from tokenmill.torch import TorchLoader  # noqa: E402

SHAPE = {"batch_size": 4, "max_length": 16, "seed": 9}


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "train.npy", np.arange(1000, dtype=np.int32))
    np.save(tmp_path / "val.npy", np.arange(5000, 5200, dtype=np.uint16))
    return {
        "train_data_path": tmp_path / "train.npy",
        "val_data_path": tmp_path / "val.npy",
    }


class Recorder(lightning.LightningModule):
    """Remembers the first token of the rows of each step."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen, self.seen_in_validation = [], []

    def training_step(self, batch, _):
        self.seen.append(batch["input_ids"][:, 0].tolist())
        assert torch.equal(batch["input_ids"] + 1, batch["labels"])
        return self.weight * batch["input_ids"].float().mean()

    def validation_step(self, batch, _):
        self.seen_in_validation.append(batch["input_ids"][:, 0].tolist())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(folder, files, *, steps, num_workers=0, checkpoint=None):
    model = Recorder()
    trainer = lightning.Trainer(
        max_steps=steps, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder, limit_val_batches=2,
        callbacks=[
            lightning.callbacks.ModelCheckpoint(
                folder, every_n_train_steps=5, save_top_k=-1, filename="{step}"
            )
        ],
    )  # fmt: skip
    module = LocalDataModule(**files, **SHAPE, num_workers=num_workers)
    trainer.fit(model, datamodule=module, ckpt_path=checkpoint)
    return model


@pytest.mark.parametrize("function", [LocalDataModule, create_dataloaders])
def test_these_arguments_are_taken_by_place(function):
    """As scripts give them."""
    names = "train_data_path val_data_path batch_size max_length num_workers prefetch_factor seed"
    given = inspect.signature(function).parameters.values()

    assert [p.name for p in given if p.kind is p.POSITIONAL_OR_KEYWORD] == names.split()


def test_the_module_passes_on_what_it_was_given(files):
    module = LocalDataModule(*files.values(), 4, 16, 0, None, 9)
    loaders = create_dataloaders(*files.values(), 4, 16, 0, None, 9)

    assert module.train_dataloader().state_dict() == loaders[0].state_dict()
    assert module.val_dataloader().state_dict() == loaders[1].state_dict()
    assert loaders[0].state_dict()["seed"] == 9


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("saved_at", [5, 15, 20])
def test_a_checkpoint_resumes_in_mid_epoch_and_at_its_end(tmp_path, files, saved_at):
    """15 steps are an epoch: saved in the first, at its end, and in the second."""
    order = TorchLoader(
        TorchSource(files["train_data_path"]).data, batch_size=4, block_size=16, seed=9, epochs=1
    )
    expected = [b.inputs[:, 0].tolist() for _ in range(2) for b in order]

    first = fit(tmp_path, files, steps=22)
    rest = fit(tmp_path, files, steps=22, checkpoint=tmp_path / f"step={saved_at}.ckpt")

    assert first.seen == expected[:22]
    assert rest.seen == expected[saved_at:22]
    assert first.seen_in_validation[-2:] == [[5000, 5016, 5032, 5048], [5064, 5080, 5096, 5112]]
    stored = torch.load(tmp_path / f"step={saved_at}.ckpt", weights_only=True)
    assert stored["loops"]["fit_loop"]["state_dict"]["combined_loader"]


class TorchSource:
    """The file, opened plainly."""

    def __init__(self, path):
        from tokenmill.dataset import open as open_tokens

        self.data = open_tokens(path, "all")
