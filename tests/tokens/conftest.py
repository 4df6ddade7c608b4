"""The oracle: tiktoken itself, on the bundled GPT-2 ranks, with each published split pattern."""

import base64
import hashlib
from pathlib import Path

import pytest
import tiktoken
import tokenizers
from tokenizers import decoders, models, pre_tokenizers
from tokens.patterns import PATTERNS

RANK_FILE = Path(__file__).parents[2] / "src" / "tokenmill" / "tokens" / "data" / "gpt2.tiktoken"
RANKS_SHA256 = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"


@pytest.fixture(scope="session")
def rank_file():
    data = RANK_FILE.read_bytes()
    assert hashlib.sha256(data).hexdigest() == RANKS_SHA256
    return data


@pytest.fixture(scope="session")
def oracle(rank_file):
    """oracle("cl100k") -> tiktoken on GPT-2's ranks with that pattern."""
    lines = (line.split() for line in rank_file.splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return {
        name: tiktoken.Encoding(
            name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256}
        )
        for name, pattern in PATTERNS.items()
    }.__getitem__


@pytest.fixture(scope="session")
def train_bpe():
    """train_bpe(text, size, ...) -> a small byte-level `tokenizers.Tokenizer`."""

    def train(text, size=400, *, added=("<|endoftext|>",), pre_tokenizer=None, normalizer=None):
        tokenizer = tokenizers.Tokenizer(models.BPE())
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.pre_tokenizer = byte_level if pre_tokenizer is None else pre_tokenizer
        tokenizer.decoder = decoders.ByteLevel()
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=list(added),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator([text], trainer)
        return tokenizer

    return train
