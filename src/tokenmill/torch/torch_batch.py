"""A batch as contiguous tensors, and the forms in which trainers want it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from tokenmill.base.suggest import one_of
from tokenmill.batches.batch import IGNORED, Batch
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.window_source import refuse_labels_apart

# Fields that a batch of arrays has as well, or has as None: all of them without a loss mask.
_ARRAYS = ("document_ids", "positions", "loss_mask", "cu_seqlens", "augmented_labels")
ITEMS = ("pair", "dict", "hugging_face", "window", "megatron")  # the forms of single rows
BATCH_ITEMS = (*ITEMS, "flash", "batch")


@dataclass(eq=False)  # not frozen: that takes twice as long to make
class TorchBatch:
    """Rows of one step and rank; unpacks as `inputs, targets = batch`.

    Of rows with padding it unpacks as `inputs, labels`: nothing is to be learned from padding.
    Banned targets are `ignore_index` in both.
    """

    inputs: Tensor
    """(B, T) int64."""
    targets: Tensor
    """(B, T) int64: the token after each input; `ignore_index` where that is banned."""
    document_ids: Tensor | None = None
    """(B, T): which document of its row a token is in; None unless `documents=True` or rows are
    made of documents. Padding is one more document."""
    positions: Tensor | None = None
    """(B, T): position in that document, counted from its first token in the row."""
    loss_mask: Tensor | None = None
    """(B, T) bool: false where the target is the first token of a document, padding or banned."""
    cu_seqlens: Tensor | None = None
    """Ends of documents over the whole flattened batch, int32, of fixed length."""
    max_seqlen: int | None = None
    sources: Tensor | None = None
    """(B,): the source of each row, as its number in the mixture (0 without one)."""
    num_targets: float = 0
    """Targets that count: all, or those of the loss mask; the sum of their weights, if any."""
    augmented_labels: Tensor | None = None
    """(B, T): the labels, where an augmentation gives others than the tokens say."""

    labels_are_inputs: bool = False
    """True if labels are the inputs' own tokens, not the next ones (`MaskTokens`)."""
    masks_targets: bool = False
    """True if it unpacks as labels: rows have padding, or an augmentation chose the targets."""
    ignore_index: int = IGNORED
    """The label where there is no loss: -100, or what the loader was given."""
    weights: Tensor | None = None
    """(B, T) float32: how much each target counts; None where the data has no weights."""
    columns: dict[str, Tensor] | None = None
    """(B, T + 1) each: the columns of all tokens by name; None where the data has none."""

    @property
    def labels(self) -> Tensor:
        """(B, T) int64: the targets, and `ignore_index` where there is no loss."""
        if self.augmented_labels is not None:
            return self.augmented_labels
        if self.loss_mask is None:
            return self.targets
        return self.targets.masked_fill(~self.loss_mask, self.ignore_index)

    @property
    def position_ids(self) -> Tensor:
        """(B, T) int64: `positions`, or 0 to T - 1 where documents are not known."""
        if self.positions is not None:
            return self.positions.long()
        length = self.inputs.shape[1]
        return torch.arange(length, device=self.inputs.device).repeat(len(self.inputs), 1)

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.inputs, self.labels if self.masks_targets else self.targets))

    def to(self, device: torch.device | str) -> Self:
        return self._map(lambda tensor: tensor.to(device))

    def split(self, rows: int) -> list[Self]:
        """Micro-batches of at most `rows` rows. `cu_seqlens` is for the whole, and left out."""
        total = len(self.inputs)
        if rows >= total:
            return [self]
        whole = replace(self, cu_seqlens=None, max_seqlen=None)
        starts = range(0, total, rows)
        return [whole._map(lambda tensor, at=at: tensor[at : at + rows]) for at in starts]

    def _map(self, change: Any) -> Self:
        tensors = {name: v for name, v in vars(self).items() if isinstance(v, Tensor)}
        changed = replace(self, **{name: change(tensor) for name, tensor in tensors.items()})
        if self.columns is not None:
            changed.columns = {name: change(column) for name, column in self.columns.items()}
        return changed

    def as_dict(self) -> dict[str, Tensor]:
        """`{"input_ids", "labels", ...}` with labels already shifted: labels[t] follows input t.

        For a loss of your own. A Hugging Face model shifts by itself: use `for_hugging_face`.
        """
        named = {"input_ids": self.inputs, "labels": self.labels}
        if self.positions is not None:
            named["position_ids"] = self.positions
        return named

    def for_hugging_face(self, *, position_ids: bool = False) -> dict[str, Tensor]:
        """`{"input_ids", "labels"}` for a causal model of transformers, which shifts labels itself.

        Both are the T + 1 tokens of the window: for a context of 1024 use block_size=1023. Rows of
        documents also have `position_ids`, which start again with each document; windows with
        `documents=True` have them if asked. With `MaskTokens` they are T inputs and T labels, for
        masked models, which do not shift.
        """
        if self.labels_are_inputs:
            return {"input_ids": self.inputs, "labels": self.labels}
        # No loss comes after the last token: where it is banned, any id will do as an input.
        whole = torch.cat((self.inputs, self.targets[:, -1:].clamp(min=0)), dim=1)
        if self.loss_mask is None and self.augmented_labels is None:
            return {"input_ids": whole, "labels": whole.clone()}
        named = {"input_ids": whole, "labels": torch.cat((whole[:, :1], self.labels), dim=1)}
        wanted = position_ids or self.masks_targets
        if wanted and self.positions is not None and self.loss_mask is not None:
            last = (self.positions[:, -1:] + 1) * self.loss_mask[:, -1:]
            named["position_ids"] = torch.cat((self.positions, last), dim=1)
        return named

    def for_flash_attention(self) -> dict[str, Any]:
        """Return the batch as one row of documents, for flash attention in transformers.

        As `for_hugging_face`, flat: (1, B * (T + 1)), with `position_ids`, the ends of documents
        `cu_seq_lens_q` and `_k`, and the longest one. A row without documents is one document.
        """
        if self.labels_are_inputs:
            raise ValueError(
                'items="flash" is for causal models, and MaskTokens for masked ones\n\n'
                'hint: items="hugging_face", or another augmentation'
            )
        named = self.for_hugging_face(position_ids=True)
        ids = named["input_ids"]
        positions = named.get("position_ids")
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        named["labels"][:, 0] = self.ignore_index  # the row before does not predict it
        (begins,) = (positions.flatten() == 0).nonzero(as_tuple=True)
        ends = torch.nn.functional.pad(begins, (0, 1), value=ids.numel()).int()
        longest = int(ends.diff().max())
        flat = {**named, "position_ids": positions.long()}
        return {
            **{name: tensor.reshape(1, -1) for name, tensor in flat.items()},
            **{"cu_seq_lens_q": ends, "cu_seq_lens_k": ends},
            **{"max_length_q": longest, "max_length_k": longest},
        }

    def for_megatron(self) -> dict[str, Tensor]:
        """`{"tokens", "labels", "loss_mask", "position_ids"}`; labels without a loss are 0."""
        labels = self.labels
        counted = labels != self.ignore_index
        return {
            "tokens": self.inputs,
            "labels": labels * counted,
            "loss_mask": counted.float(),
            "position_ids": self.position_ids,
        }


def cheapest_form(
    form: BatchForm, data: Any, options: Mapping[str, Any], *, in_halves: bool
) -> BatchForm:
    """Change how a loader gathers so that its arrays become tensors at the least cost.

    With `in_halves` plain windows are gathered as inputs and targets. All other tokens are as wide
    as the files have them, and widened when they become tensors.
    """
    sources = getattr(data, "datasets", (data,))
    has_columns = any(getattr(source, "columns", None) for source in sources)
    is_plain = not (options.get("documents") or options.get("augment") or has_columns)
    if in_halves and is_plain and options.get("rows", "windows") == "windows":
        return replace(form, halves=True)
    stored: Any = getattr(data, "dtype", np.dtype("uint64"))  # a mixture has none
    fits = stored != np.uint64 and np.can_cast(stored, np.dtype(form.dtype))
    return replace(form, dtype=stored) if fits else form


def form_of(
    items: str, ignore_index: int, documents: Any, *, forms: Any = BATCH_ITEMS, dtype: Any = None
) -> Callable[[Batch], Any]:
    """Return `batch_as` for a form; one that cannot hold what was asked for is refused."""
    one_of("items", items, forms)
    if documents and items in ("pair", "window"):
        raise ValueError(
            f"items={items!r} has no place for the positions and masks of documents=True\n\n"
            'hint: items="dict", "hugging_face" or "megatron", or leave documents out'
        )
    if ignore_index >= 0:
        raise ValueError(
            f"ignore_index is {ignore_index}, which is a token id: targets of this id would be "
            "without a loss\n\nhint: -100 (torch, transformers) or -1 (nanoGPT, nanochat, llm.c)"
        )
    return partial(batch_as, items=items, dtype=dtype, ignore_index=ignore_index)


_FORMS: dict[str, Callable[[TorchBatch], Any]] = {
    "pair": tuple,
    "dict": TorchBatch.as_dict,
    "hugging_face": partial(TorchBatch.for_hugging_face, position_ids=True),
    "megatron": TorchBatch.for_megatron,
    "flash": TorchBatch.for_flash_attention,
}


def batch_as(batch: Batch, items: str, dtype: Any = None, ignore_index: int = IGNORED) -> Any:
    """Return a batch in one of the forms that `items` names.

    pair           (inputs, targets); where rows have padding, (inputs, labels)
    dict           {"input_ids", "labels"}: labels[t] is the token after input_ids[t]
    hugging_face   {"input_ids", "labels"}: both all T + 1 tokens, since those models shift labels
                   themselves; the model sees T + 1 tokens and none of the T targets is lost
    window         the T + 1 tokens in one tensor, for loops that cut it themselves (LitGPT)
    megatron       {"tokens", "labels", "loss_mask", "position_ids"}
    flash          hugging_face in one flat row, with `cu_seq_lens_q` and `_k`: whole batches only
    batch          a TorchBatch

    Labels are `ignore_index` where there is no loss, and so are targets that are banned. With
    documents, `dict` and `hugging_face` have "position_ids".
    """
    if items == "window":
        refuse_labels_apart(batch)
        return _tensor(batch.tokens, dtype)
    made = from_arrays(batch, dtype=dtype, ignore_index=ignore_index)
    return _FORMS[items](made) if items in _FORMS else made


def from_arrays(
    batch: Batch, tokens: Tensor | None = None, *, dtype: Any = None, ignore_index: int = IGNORED
) -> TorchBatch:
    """A batch of arrays as tensors: on the CPU, or on the device where its tokens are already."""
    if batch.rows.ndim == 3 and tokens is None and dtype is None:  # halves, int64 as they are
        inputs, targets = map(torch.from_numpy, batch.rows)
        sources = torch.from_numpy(batch.sources)
        return TorchBatch(inputs, targets, sources=sources, num_targets=inputs.numel())
    if batch.banned is not None and np.dtype(dtype or np.int64).kind == "u":
        raise ValueError(f"dtype {dtype} cannot hold -100, the label of banned targets; use int64")
    if tokens is None:
        inputs = _tensor(batch.inputs, dtype)
        targets = _tensor(batch.targets, dtype)
    else:
        inputs = tokens[:, :-1].contiguous()
        targets = tokens[:, 1:].contiguous()
        if batch.augmented_labels is not None or batch.banned is not None:
            targets = _tensor(batch.targets, np.int64).to(tokens.device)

    mask = batch.loss_mask
    made = TorchBatch(
        inputs,
        targets,
        max_seqlen=batch.max_seqlen,
        num_targets=targets.numel() if mask is None else int(mask.sum()),
        labels_are_inputs=batch.labels_are_inputs,
        masks_targets=batch.masks_targets,
        sources=torch.from_numpy(batch.sources),
        ignore_index=ignore_index,
    )
    if mask is not None:
        for name in _ARRAYS:
            if (array := getattr(batch, name)) is not None:
                setattr(made, name, torch.from_numpy(array))
        if ignore_index != IGNORED:
            for name in ("targets", "augmented_labels"):
                if (labels := getattr(made, name)) is not None:
                    setattr(made, name, labels.masked_fill(labels == IGNORED, ignore_index))
    if batch.columns is not None:
        _add_columns(made, batch)
    return made if tokens is None else made.to(tokens.device)


def _add_columns(made: TorchBatch, batch: Batch) -> None:
    """Add the columns of a batch of arrays; values of 16 bits become int32."""
    if (weights := batch.weights) is not None:
        made.weights = torch.from_numpy(weights)
        counted = weights if batch.loss_mask is None else weights * batch.loss_mask
        made.num_targets = float(counted.sum(dtype=np.float64))
    made.columns = {
        name: torch.from_numpy(values.astype(np.int32) if values.itemsize == 2 else values)
        for name, values in (batch.columns or {}).items()
    }


def _tensor(ids: np.ndarray, dtype: Any) -> Tensor:
    return torch.from_numpy(ids.astype(dtype or np.int64, order="C", copy=False))


def refuse_rows(loader: object, _: object = None) -> None:
    """Refuse a DataLoader around a loader, which would make batches of its batches."""
    raise TypeError(
        f"a {type(loader).__name__} gives batches; another DataLoader takes rows\n\n"
        "hint: iterate over it as it is, or give tokenmill.torch.WindowsDataset to that DataLoader"
    )


def loss_per_source(losses: Tensor, batch: TorchBatch, num_sources: int) -> tuple[Tensor, Tensor]:
    """Summed loss and number of targets of each source of a mixture, from the (B, T) losses.

    `losses` are those of the targets, unreduced: `cross_entropy(..., reduction="none")`. Targets
    without a loss are not counted, also where rows have padding. Add both over micro-batches and
    ranks, then divide: the quotient is exact however the rows were divided. Where the data has
    weights, losses are weighed, and the numbers are sums of weights.
    """
    if batch.sources is None:
        raise ValueError("the batch does not say which source its rows are of")
    counted = batch.labels != batch.ignore_index  # (B, T)
    weights = counted if batch.weights is None else counted * batch.weights
    loss_of_rows = torch.where(counted, losses.detach().float() * weights, 0.0).sum(dim=1)
    sums = loss_of_rows.new_zeros(num_sources).index_add_(0, batch.sources, loss_of_rows)
    targets_of_rows = weights.sum(dim=1)
    counts = targets_of_rows.new_zeros(num_sources).index_add_(0, batch.sources, targets_of_rows)
    return sums, counts
