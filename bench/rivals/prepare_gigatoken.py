"""gigatoken alone: the limit. Documents and ids are in memory; only encoding is timed."""

import sys
import time
from pathlib import Path

from gigatoken.gigatoken_rs import BPETokenizer

ranks, corpus, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
if kind == "jsonl":
    import orjson

    docs = [orjson.loads(line)["text"].encode() for line in corpus.read_bytes().splitlines()]
else:
    docs = corpus.read_bytes().split(b"<|endoftext|>")
tokenizer = BPETokenizer.from_tiktoken(ranks, "gpt2")
tokenizer.encode_batch(docs[:1], parallel=True)  # imports what it needs
started = time.perf_counter()
ids = tokenizer.encode_batch(docs, parallel=True)
print(time.perf_counter() - started)
