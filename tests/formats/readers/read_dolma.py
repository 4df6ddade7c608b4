"""Documents of a folder, after dolma itself has merged its pairs into one."""

import csv
import gzip
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from dolma.tokenizer.reshard import TokensMetadataPaths, merge_group

paths = sorted(Path(sys.argv[1]).glob("*.npy"))
pairs = [TokensMetadataPaths(str(path), str(path.with_suffix(".csv.gz"))) for path in paths]
with tempfile.TemporaryDirectory() as folder:
    merged = Path(folder) / "merged.npy"
    merge_group(pairs, merged, np.dtype(sys.argv[2]))
    tokens = np.memmap(merged, np.dtype(sys.argv[2]), mode="r")
    with gzip.open(merged.with_suffix(".csv.gz"), "rt") as table:
        documents = [tokens[int(row[0]) : int(row[1])].tolist() for row in csv.reader(table)]
print(json.dumps(documents))
