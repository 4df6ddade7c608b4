"""Samples of a folder, by MosaicML Streaming's own reader."""

import json
import sys

from streaming import LocalDataset

data = LocalDataset(sys.argv[1])
print(json.dumps([data[i]["tokens"].tolist() for i in range(len(data))]))
