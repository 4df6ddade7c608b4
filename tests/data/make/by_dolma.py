"""Two .npy files without header, each with its .csv.gz, by dolma's MemmapWriter."""

import importlib.metadata

import numpy as np
from dolma.tokenizer.data_types import TokenizerOutput
from dolma.tokenizer.memmap_writer import MemmapWriter

from documents import documents, fresh

folder = fresh("dolma")
number = 0
for shard, part in enumerate([documents()[:9], documents()[9:]]):
    path = str(folder / f"part-{shard}-00000")
    with MemmapWriter(path=path, dtype=np.dtype("uint16"), max_tokens=4096) as writer:
        for document in part:
            output = TokenizerOutput.from_tokens(
                id=f'doc "{number}", of many', src="corpus.jsonl.gz", loc=number, tokens=document
            )
            assert writer.write(output)
            number += 1
print("dolma", importlib.metadata.version("dolma"))
