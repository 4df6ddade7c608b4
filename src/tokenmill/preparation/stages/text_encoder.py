"""Texts become ids, and are counted for the accounts."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import xxhash

from tokenmill.errors import BadInputError, PrepareError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.text.reading.bad_input import EMPTY, ONLY_REPEATED_LINES
from tokenmill.tokens.tokenizer import Tokenizer


class TextEncoder:
    """Encodes texts of a plan, and counts what the accounts must know of them."""

    def __init__(self, plan: Plan) -> None:
        self.tokenizer: Tokenizer = plan.tokenizer
        self.begin_token_id = plan.begin_token_id
        self.begin_token = _spelling(self.tokenizer, self.begin_token_id)
        self.is_cleaned = plan.settings.clean
        self.refuses = plan.settings.on_bad_input == "error"
        self.counts: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def encode_documents(self, texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of whole documents, and where each ends."""
        return self._encode(texts, begins=True)

    def encode_piece(self, text: bytes, *, begins: bool) -> np.ndarray:
        """Ids of a piece of a long document; `begins` if it is the first one."""
        return self._encode([text], begins=begins)[0]

    def _encode(self, texts: list[bytes], *, begins: bool) -> tuple[np.ndarray, np.ndarray]:
        """Ids and ends; every id is sure to be one of the vocabulary: nothing ever wraps."""
        ids, ends = self.tokenizer.encode_batch(texts)
        if self.begin_token_id is not None:
            self._refuse_doubled_begin(texts if begins else [], ids)
        largest = int(ids.max(initial=0))
        if largest >= self.tokenizer.vocab_size:
            raise PrepareError(
                f"token id {largest} is beyond the vocabulary of {self.tokenizer.name} "
                f"({self.tokenizer.vocab_size:,} ids)",
                hint="the tokenizer file contradicts itself; check where it comes from",
            )
        if self.tokenizer.end_of_text:
            literal = self.tokenizer.end_of_text.encode()
            # One byte is looked for first: most texts do not have it, and that is soon known.
            num_literal = sum(text.count(literal) for text in texts if literal[:1] in text)
            self.counts["literal_end_of_text"] += num_literal
        return ids, ends

    def check_same_text(self, texts: Sequence[bytes], ids: np.ndarray, ends: np.ndarray) -> None:
        """Refuse ids that decode to other texts; add up the hashes of the texts."""
        for text, decoded in zip(texts, self.tokenizer.decode_batch(ids, ends), strict=True):
            if text != decoded:
                raise PrepareError(
                    f"a document is not the same text after {self.tokenizer.name}: "
                    f"{_difference(text, decoded)}",
                    hint="that tokenizer changes texts (its normalizer, or characters it does not "
                    "know); prepare the text itself with it",
                )
        hashes = map(xxhash.xxh3_64_intdigest, texts)
        self.counts["text_hash"] = (self.counts["text_hash"] + sum(hashes)) % (1 << 64)

    def _refuse_doubled_begin(self, texts: list[bytes], ids: np.ndarray) -> None:
        """No document may begin with the begin token twice, as an id or spelled out."""
        if (ids == self.begin_token_id).any():
            raise PrepareError(
                f"the tokenizer {self.tokenizer.name} gives the begin token (id "
                f"{self.begin_token_id}) for text by itself: it would be doubled",
                hint="name a token that no text becomes, or leave begin_token out",
            )
        if not self.begin_token:
            return
        num_spelled = sum(text.startswith(self.begin_token) for text in texts)
        if num_spelled and self.refuses:
            raise BadInputError(
                f"a document begins with {self.begin_token.decode()!r} spelled out, and "
                "begin_token writes that token before every document: it would be doubled",
                hint="leave begin_token out, remove it from the text, or keep it as text after "
                'the token: on_bad_input="replace"',
            )
        self.counts["literal_begin_token"] += num_spelled

    def is_empty(self, text: bytes) -> bool:
        return not text or (self.is_cleaned and text.isspace())

    def drop_empty(self, *, had_text: bool) -> None:
        """Count an empty document; `had_text`: it had text before repeated lines were dropped."""
        self.dropped[ONLY_REPEATED_LINES if had_text else EMPTY] += 1


def _spelling(tokenizer: Tokenizer, number: int | None) -> bytes:
    """The spelling of a special id; empty where it has none."""
    spellings = [text for text, special in tokenizer.special_ids.items() if special == number]
    return spellings[0].encode() if spellings else b""


def _difference(before: bytes, after: bytes) -> str:
    """Both texts, from a little before the first byte that differs."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(before), len(after)))
    shown = slice(max(0, same - 20), same + 20)
    return f"{before[shown]!r} became {after[shown]!r}"
