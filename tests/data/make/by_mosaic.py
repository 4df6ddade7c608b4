"""MDS shards by MosaicML Streaming: documents of every length, packed rows, several columns, bytes.

Streaming imports torchvision, for its image columns only; a package of that name with empty
modules `transforms.functional` and `datasets` (with a class VisionDataset) is enough.
"""

import importlib.metadata

import numpy as np
from documents import documents, fresh
from streaming import MDSWriter


def write(name, columns, samples, **settings):
    with MDSWriter(out=str(fresh(name)), columns=columns, **settings) as writer:
        for sample in samples:
            writer.write(sample)


write(
    "mds",
    {"tokens": "ndarray:uint16"},
    ({"tokens": np.array(document, np.uint16)} for document in documents()),
    size_limit=1200,
    hashes=["xxh3_128"],
)
write(
    "mds_columns",
    {"id": "str", "tokens": "ndarray", "length": "int", "note": "str"},
    (
        {"id": f"doc{n}", "tokens": np.array(document, np.int32), "length": len(document), "note": ""}
        for n, document in enumerate(documents())
    ),
)
flat = np.concatenate([np.array(document, np.int64) for document in documents()])
rows = flat[: len(flat) // 64 * 64].reshape(-1, 64)
write(
    "mds_rows",
    {"tokens": "ndarray:int32:64"},
    ({"tokens": row.astype(np.int32)} for row in rows),
    size_limit=2000,
)
write("mds_bytes", {"tokens": "bytes"}, ({"tokens": row.tobytes()} for row in rows), size_limit=4000)
write(
    "mds_zstd",
    {"tokens": "ndarray:uint16"},
    ({"tokens": np.array(document, np.uint16)} for document in documents()),
    compression="zstd:7",
    hashes=["xxh3_128"],
)
write("mds_pkl", {"tokens": "pkl"}, ({"tokens": document} for document in documents()[:3]))
print("mosaicml-streaming", importlib.metadata.version("mosaicml-streaming"))
