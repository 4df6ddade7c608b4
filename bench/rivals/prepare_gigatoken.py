"""gigatoken alone: the limit; ids stay in memory.

`text` and `jsonl`: documents are in memory too, only encoding is timed, and the time is printed.
`file` and `folder`: all there is to do, in the fastest way; to be timed from start to exit.
"""

import sys
import time
from pathlib import Path

from gigatoken.gigatoken_rs import BPETokenizer, TextFileSource

SEPARATOR = b"<|endoftext|>"
ranks, corpus, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
tokenizer = BPETokenizer.from_tiktoken(ranks, "gpt2")
if kind == "file":
    tokenizer.encode_files(TextFileSource([str(corpus)], separator=SEPARATOR))
    sys.exit()
if kind == "jsonl":
    import orjson

    docs = [orjson.loads(line)["text"].encode() for line in corpus.read_bytes().splitlines()]
elif kind == "folder":
    docs = [path.read_bytes() for path in sorted(corpus.rglob("*.txt"))]
else:
    docs = corpus.read_bytes().split(SEPARATOR)
    tokenizer.encode_batch(docs[:1], parallel=True)  # imports what it needs
started = time.perf_counter()
ids = tokenizer.encode_batch(docs, parallel=True)
print(time.perf_counter() - started)
