"""Tokenizers in files, sound ones, and their use: for `readers.py`."""

import io
import json
from pathlib import Path
from typing import Any

import tokenmill
from tokenmill.tokens import load_tokenizer
from tokenmill.tokens.bytes_and_chars import BytesTokenizer, CharsTokenizer


def only_file(folder: Path) -> Path:
    """The one file in a folder."""
    [path] = [path for path in folder.iterdir() if path.is_file()]
    return path


def make_states(folder: Path) -> None:
    for tokenizer in (BytesTokenizer(), CharsTokenizer(" abcd")):
        (folder / f"{tokenizer.name}.json").write_text(json.dumps(tokenizer.state()))
    tokenizer = load_tokenizer.load(str(rank_file(folder)), pattern="gpt2", end_of_text=300)
    (folder / "ranks.json").write_text(json.dumps(tokenizer.state()))
    (folder / "a.tiktoken").unlink()


def rank_file(folder: Path) -> Path:
    whole = Path(tokenmill.__file__).parent / "tokens" / "data" / "gpt2.tiktoken"
    (folder / "a.tiktoken").write_bytes(b"\n".join(whole.read_bytes().splitlines()[:300]))
    return folder / "a.tiktoken"


def use(tokenizer: Any) -> None:
    ids = tokenizer.encode(b"abc d") if hasattr(tokenizer, "encode") else []
    assert not len(ids) or max(ids) < tokenizer.vocab_size


def read_states(folder: Path, sound: dict[str, bytes]) -> None:
    for name, data in sound.items():
        if (found := (folder / name).read_bytes()) != data:
            use(load_tokenizer.from_bytes(found, name))


def read_ranks(folder: Path, sound: dict[str, bytes]) -> None:
    use(load_tokenizer.load(str(only_file(folder)), pattern="gpt2", end_of_text=5000))


def make_tokenizer_json(folder: Path) -> None:
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    made.train_from_iterator(["the mill turns grain into flour " * 9], trainer)
    made.save(str(folder / "tokenizer.json"))


def read_tokenizer_json(folder: Path, sound: dict[str, bytes]) -> None:
    use(load_tokenizer.load(str(only_file(folder))))


def make_sentencepiece(folder: Path) -> None:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the mill turns grain into flour"] * 30), model_writer=model,
        vocab_size=40, minloglevel=2, eos_piece="</s>", hard_vocab_limit=False,
    )  # fmt: skip
    (folder / "a.model").write_bytes(model.getvalue())
