"""Chunks in token mode by litdata's writer: uint16 numpy items, and int64 torch items."""

import importlib.metadata

import numpy as np
import torch
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter

from documents import documents, fresh


def write(name, make):
    folder = fresh(name)
    writer = BinaryWriter(str(folder), chunk_bytes=700, item_loader=TokensLoader())
    for number, document in enumerate(documents()):
        writer[number] = make(document)
    writer.done()
    writer.merge(1)

write("litdata", lambda document: np.array(document, np.uint16))
write("litdata_tensor", lambda document: torch.tensor(document, dtype=torch.int64))
print("litdata", importlib.metadata.version("litdata"))
