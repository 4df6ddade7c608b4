"""Two pairs by Megatron-core's own builder: uint16, and int32 with documents of several sequences."""

import megatron.core
import numpy as np
import torch
from documents import documents, fresh
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder

assert DType.optimal_dtype(50257) == np.uint16

folder = fresh("megatron")
builder = IndexedDatasetBuilder(str(folder / "corpus.bin"), dtype=np.uint16)
for document in documents():
    builder.add_document(torch.tensor(document), [len(document)])
builder.finalize(str(folder / "corpus.idx"))

folder = fresh("megatron_int32")
builder = IndexedDatasetBuilder(str(folder / "corpus.bin"), dtype=np.int32)
for document in documents():
    half = len(document) // 2
    builder.add_item(torch.tensor(document[:half]))
    builder.add_item(torch.tensor(document[half:]))
    builder.end_document()
builder.finalize(str(folder / "corpus.idx"))
print("megatron-core", megatron.core.__version__)
