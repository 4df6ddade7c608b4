"""Documents of a pair, by Megatron-core: argument is the path without suffix."""

import itertools
import json
import sys

from megatron.core.datasets.indexed_dataset import IndexedDataset

data = IndexedDataset(sys.argv[1])
bounds = data.document_indices.tolist()
documents = [
    [token for sequence in range(start, stop) for token in data[sequence].tolist()]
    for start, stop in itertools.pairwise(bounds)
]
print(json.dumps(documents))
