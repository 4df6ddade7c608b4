"""Documents of a folder of .ds files, by the functions of datatrove's own check."""

import json
import struct
import sys
from pathlib import Path

from datatrove.tools.check_dataset import load_dataset_bytes, load_doc_ends

documents = []
for path in sorted(Path(sys.argv[1]).glob("*.ds")):
    with Path(f"{path}.index").open("rb") as file:
        ends = load_doc_ends(file)
    width = int(Path(f"{path}.metadata").read_text().splitlines()[0].split("|")[1])
    for data in load_dataset_bytes(path.open("rb"), ends, width):
        documents.append(
            list(struct.unpack(f"<{len(data) // width}{'H' if width == 2 else 'I'}", data))
        )
print(json.dumps(documents))
