"""All tokens of a folder in order, by litdata's StreamingDataset, in blocks of one token."""

import json
import sys

from litdata import StreamingDataset
from litdata.streaming.item_loader import TokensLoader

data = StreamingDataset(sys.argv[1], item_loader=TokensLoader(block_size=1), shuffle=False)
print(json.dumps([int(data[i][0]) for i in range(len(data))]))
