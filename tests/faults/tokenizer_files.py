"""Tokenizers in files, sound ones, and their use: for `readers.py`."""

import io
import json
from pathlib import Path
from typing import Any

import tokenmill
from tokenmill.tokens import load_tokenizer
from tokenmill.tokens.bytes_and_chars import BytesTokenizer, CharsTokenizer
from tokenmill.tokens.same_ids import ComparedTokenizer


def only_file(folder: Path) -> Path:
    """The one file in a folder."""
    [path] = [path for path in folder.iterdir() if path.is_file()]
    return path


def make_states(folder: Path) -> None:
    for tokenizer in (BytesTokenizer(), CharsTokenizer(" abcd")):
        (folder / f"{tokenizer.name}.json").write_text(json.dumps(tokenizer.state()))
    for name, pattern in (("ranks", "gpt2"), ("pairs", "nanochat"), ("odd", r"\p{L}+|[^\p{L}]")):
        tokenizer = load_tokenizer.load(str(rank_file(folder)), pattern=pattern, end_of_text=300)
        (folder / f"{name}.json").write_text(json.dumps(tokenizer.state()))
    (folder / "a.tiktoken").unlink()
    (folder / "gpt2.json").write_text(json.dumps(load_tokenizer.load("gpt2").state()))
    for make in (make_tokenizer_json, make_pieces_json, make_bpe_model):
        make(folder)
        [path] = [path for path in folder.iterdir() if path.name in ("tokenizer.json", "a.model")]
        tokenizer = load_tokenizer.load(str(path))
        path.unlink()
        (folder / f"{make.__name__}.state.json").write_text(json.dumps(tokenizer.state()))


def rank_file(folder: Path) -> Path:
    whole = Path(tokenmill.__file__).parent / "tokens" / "data" / "gpt2.tiktoken"
    (folder / "a.tiktoken").write_bytes(b"\n".join(whole.read_bytes().splitlines()[:300]))
    return folder / "a.tiktoken"


TEXTS = [b"", b"abc d", "the mill's 12345\n\n \u6c34\u8eca </s><s> e\u0301 \u2581 ".encode()]


def use(tokenizer: Any) -> None:
    """Ids are in the vocabulary, have their bytes, and are those of the package it is from."""
    texts = TEXTS if tokenizer.name != "chars" else [b"abc d"]
    ids, _ = tokenizer.encode_batch(texts)
    assert not len(ids) or 0 <= min(ids) <= max(ids) < tokenizer.vocab_size < 1 << 24
    assert 0 <= tokenizer.end_of_text_id < tokenizer.vocab_size
    assert len(tokenizer.bytes_of_ids()) == tokenizer.vocab_size
    tokenizer.decode(ids)
    if isinstance(tokenizer, ComparedTokenizer):
        assert ids.tolist() == tokenizer._encode_slowly(texts)[0].tolist(), "other ids"


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
    _train_pieces(folder, vocab_size=40)


def make_bpe_model(folder: Path) -> None:
    """As that of Llama 2: on gigatoken."""
    _train_pieces(
        folder, vocab_size=300, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
    )  # fmt: skip


def _train_pieces(folder: Path, **options: Any) -> None:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the mill turns grain into flour"] * 30), model_writer=model,
        minloglevel=2, eos_piece="</s>", hard_vocab_limit=False, **options,
    )  # fmt: skip
    (folder / "a.model").write_bytes(model.getvalue())


def make_pieces_json(folder: Path) -> None:
    """The same as Llama 2's `tokenizer.json`."""
    from gigatoken._load.sentencepiece import sentencepiece_to_tokenizer_json

    make_bpe_model(folder)
    content = sentencepiece_to_tokenizer_json((folder / "a.model").read_bytes())
    (folder / "a.model").unlink()
    (folder / "tokenizer.json").write_text(content)
