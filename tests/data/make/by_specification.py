"""Formats whose projects are no packages: written as their sources say, with nothing of tokenmill.

llm.c (dev/data/data_common.py): 256 int32, then tokens; the end-of-text id comes first in a document.
lit-gpt's packed dataset: magic, version, dtype code, chunk size, tokens, the last file filled up.
Modalities .pbin: u64 bytes, u32 token size, tokens, a pickled index.
"""

import pickle
import struct

import numpy as np
from documents import documents, fresh


def llmc(path, tokens, magic, version, dtype):
    header = np.zeros(256, np.int32)
    header[:3] = magic, version, len(tokens)
    path.write_bytes(header.tobytes() + np.array(tokens, dtype).tobytes())


before = [token for document in documents() for token in [50256, *document[:-1]]]
folder = fresh("llmc")
for number, start in enumerate(range(0, len(before), 400)):
    kind = "val" if number == 0 else "train"
    llmc(folder / f"corpus_{kind}_{number:06d}.bin", before[start : start + 400], 20240520, 1, "<u2")
folder = fresh("llmc_uint32")
llama = [128000 if token == 50256 else token for token in before]
llmc(folder / "corpus.bin", llama, 20240801, 7, "<u4")

folder = fresh("litpkds")
flat = [token for document in documents() for token in document]
size = 512
for number, start in enumerate(range(0, len(flat), size)):
    tokens = np.full(size, 50256, "<u2")
    part = flat[start : start + size]
    tokens[: len(part)] = part
    head = b"LITPKDS" + struct.pack("<Q", 1) + struct.pack("<B", 8) + struct.pack("<Q", size)
    (folder / f"corpus_{number:010d}.bin").write_bytes(head + tokens.tobytes())

folder = fresh("modalities")
data = np.array(flat, "<u2").tobytes()
ends = np.cumsum([2 * len(document) for document in documents()]).tolist()
index = [(end - 2 * len(document), 2 * len(document)) for end, document in zip(ends, documents())]
(folder / "corpus.pbin").write_bytes(struct.pack("<QI", len(data), 2) + data + pickle.dumps(index))
