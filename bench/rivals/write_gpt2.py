"""GPT-2 as a tokenizer.json, for projects that read nothing else."""

import json
import sys
from pathlib import Path

from gigatoken.gigatoken_rs import BPETokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SAMPLE = "Hello, world! \n\n def f(x):"


def main(ranks: str, path: Path) -> None:
    known = BPETokenizer.from_tiktoken(ranks, "gpt2")
    spelled = byte_spelling()
    vocab = {"".join(spelled[b] for b in token): rank for rank, token in known.vocab.items()}
    merges = [tuple("".join(spelled[b] for b in part) for part in pair) for pair in known.merges]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    assert tokenizer.encode(SAMPLE).ids == known.encode(SAMPLE).tolist()
    tokenizer.save(str(path))
    # Pairs written as one string each: older releases read no other spelling.
    stored = json.loads(path.read_text())
    stored["model"]["merges"] = [" ".join(pair) for pair in stored["model"]["merges"]]
    path.write_text(json.dumps(stored))


def byte_spelling() -> list[str]:
    """How tokenizer.json writes each byte: printable ones as they are, the rest from U+0100 on."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
