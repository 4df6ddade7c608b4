"""Which id begins a document, where one is asked for.

A tokenizer of ours never adds it (`tokenizer.py`): `prepare --begin_token` does, before the ids of
each document. It is named by how it is written, by its id, or by `auto`, which takes the one that
published tokenizers are known by.
"""

from tokenmill.tokens.tiktoken_file import TiktokenTokenizer
from tokenmill.tokens.tokenizer import Tokenizer

AUTO = "auto"
BEGIN_NAMES = (
    *("<|begin_of_text|>", "<s>", "<bos>", "<|bos|>", "[BOS]", "<BOS>", "<|startoftext|>"),
    "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
)


def with_begin_token(tokenizer: Tokenizer, given: str) -> Tokenizer:
    """The tokenizer, with a begin token of its own where `given` is a free id of a rank file."""
    if isinstance(tokenizer, TiktokenTokenizer) and given.isdecimal():
        tokenizer = tokenizer.with_begin_token(int(given))
    find_begin_token(tokenizer, given)
    return tokenizer


def find_begin_token(tokenizer: Tokenizer, given: str) -> int:
    """The id that `given` names; refused if it is unknown, or ends documents already."""
    known = tokenizer.special_ids
    name = tokenizer.name
    if given == AUTO:
        given = _only_known(tokenizer)
    if given in known:
        found = known[given]
    elif not given.isdecimal():
        raise ValueError(
            f"begin_token={given!r} is not one of the special tokens of {name}: "
            f"{_listed(tokenizer)}; name one of them, or an id"
        )
    else:
        found = int(given)
        if found >= tokenizer.vocab_size:
            raise ValueError(
                f"begin_token={found} is not an id of {name} ({tokenizer.vocab_size:,} ids)"
            )
    if found == tokenizer.end_of_text_id:
        raise ValueError(
            f"begin_token={given!r} is the end-of-text token of {name} (id {found}): it would be "
            "doubled between two documents. Choose another, or leave begin_token out here and let "
            f"the loader put it there: BatchLoader(..., begin_token={found})"
        )
    return found


def _only_known(tokenizer: Tokenizer) -> str:
    found = [name for name in BEGIN_NAMES if name in tokenizer.special_ids]
    if len(found) == 1:
        return found[0]
    what = f"has several: {', '.join(found)}" if found else "has none that is known"
    free = f"{tokenizer.vocab_size} is free" if isinstance(tokenizer, TiktokenTokenizer) else ""
    raise ValueError(
        f"begin_token='auto': which token begins a text is not clear, {tokenizer.name} {what} "
        f"(its special tokens: {_listed(tokenizer)}); name it, or an id{f': {free}' * bool(free)}"
    )


def _listed(tokenizer: Tokenizer) -> str:
    return ", ".join(sorted(tokenizer.special_ids)[:20]) or "none"
