"""The trainer of the package `tokenizers` on a text file of documents: FILE OUT VOCAB_SIZE.

It gets what it needs to make the same merges as tokenmill: all bytes as its alphabet, and documents
one after another from a file that is never whole in memory.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

SEPARATOR = b"<|endoftext|>"


def documents(path: Path) -> Iterator[str]:
    rest = b""
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            *whole, rest = (rest + block).split(SEPARATOR)
            yield from (document.decode() for document in whole)
    yield rest.decode()


corpus, out, vocab_size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trainer = trainers.BpeTrainer(
    vocab_size=vocab_size,
    min_frequency=2,
    special_tokens=[SEPARATOR.decode()],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
)
tokenizer.train_from_iterator(documents(corpus), trainer)
tokenizer.save(out)
