"""Tokenize a text file with the package a tokenizer is from, on all cores; ids go to one file.

python prepare_tokenizers.py tokenizer.json|name.model text.txt out.bin
"""

import itertools
import sys
from pathlib import Path

import numpy as np

BATCH = 200


def main(tokenizer: str, text: str, out: str) -> None:
    documents = Path(text).read_bytes().decode().split("<|endoftext|>")
    package = of_sentencepiece if tokenizer.endswith(".model") else of_tokenizers
    encode = package(tokenizer)
    with open(out, "wb") as file:
        for start in range(0, len(documents), BATCH):
            for ids in encode(documents[start : start + BATCH]):
                file.write(np.array(ids, np.uint16).tobytes())


def of_tokenizers(path: str):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path)
    tokenizer.encode_special_tokens = True

    def encode(texts):
        found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    return encode


def of_sentencepiece(path: str):
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=path)
    return lambda texts: processor.encode(texts, out_type=int, num_threads=2)


if __name__ == "__main__":
    main(*itertools.islice(sys.argv, 1, 4))
