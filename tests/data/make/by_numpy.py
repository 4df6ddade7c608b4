"""Real .npy files by numpy (1-D uint16 and 2-D int32), and nanoGPT's raw files, which are tofile()."""

import numpy as np
from documents import documents, fresh

flat = np.concatenate([np.array(document, np.uint16) for document in documents()])
folder = fresh("npy")
np.save(folder / "corpus.npy", flat)
folder = fresh("npy_rows")
np.save(folder / "rows.npy", flat[: len(flat) // 64 * 64].astype(np.int32).reshape(-1, 64))

folder = fresh("nanogpt")
cut = sum(map(len, documents()[:12]))
flat[:cut].tofile(folder / "train.bin")
flat[cut:].tofile(folder / "val.bin")
print("numpy", np.__version__)
