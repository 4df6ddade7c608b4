"""The words of a text, and the hashes of all runs of a few words: what near-duplicates share.

Words: letters and digits of ASCII, in lower case, and characters of other scripts belong to words;
all else separates them: blanks, punctuation, U+0080 to U+00BF, U+2000 to U+2BFF, U+3000 to U+303F,
and bytes that are not UTF-8. Where a script has no blanks, each character is a word: Thai and Lao,
U+3040 to U+9FFF, U+F900 to U+FFFF, and all from U+10000 on.

Of code, `code=True`: case stays, `_` belongs to words, and each other visible character of ASCII is
a word by itself. So blanks and line ends do not count, but all else does.

A run of words is known by a hash of 64 bits. Two different ones meet in one with a probability of
2**-64: of a billion documents that are compared, some 10**-6 would be judged by such a meeting.
A text of fewer words than a run is one run. A text without words has none.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from tokenmill import kernel

OF_LENGTH = 0x9E3779B97F4A7C15
OF_WORD = 0x2545F4914F6CDD1D
MASK = (1 << 64) - 1
_WHOLE = rb"""(?x: \xe0[\xb8-\xbb][\x80-\xbf] | \xe3[\x81-\xbf][\x80-\xbf]
    | [\xe4-\xe9][\x80-\xbf][\x80-\xbf] | \xef[\xa4-\xbf][\x80-\xbf]
    | [\xf0-\xf4][\x80-\xbf][\x80-\xbf][\x80-\xbf])"""
_PART = rb"""(?x: [\xc3-\xdf][\x80-\xbf] | \xe0[\x80-\xb7\xbc-\xbf][\x80-\xbf]
    | \xe2[\xb0-\xbf][\x80-\xbf] | [\xe1\xea-\xee][\x80-\xbf][\x80-\xbf]
    | \xef[\x80-\xa3][\x80-\xbf])"""
# A separator that is not ASCII goes as a whole, so that its last bytes are not looked at alone.
_NONE = rb"(?:\xc2[\x80-\xbf]|\xe2[\x80-\xaf][\x80-\xbf]|\xe3\x80[\x80-\xbf])"
_FOLDED = bytes(ord(chr(at).lower()) if chr(at).isalnum() else 32 for at in range(128)) + bytes(128)
_WORDS = re.compile(rb"(?s)((?:[0-9A-Za-z]|%s)+|%s)|%s|." % (_PART, _WHOLE, _NONE))
_CODE = re.compile(rb"(?s)((?:[0-9A-Za-z_]|%s)+|[!-~]|%s)|%s|." % (_PART, _WHOLE, _NONE))


def find_words(text: bytes, *, code: bool = False) -> Iterator[tuple[int, int]]:
    """Yield where each word begins and ends."""
    for match in (_CODE if code else _WORDS).finditer(text):
        if match[1] is not None:
            yield match.span()


def words_of(text: bytes, *, code: bool = False) -> list[bytes]:
    """Return the words of a text, as they are compared."""
    if text.isascii() and not code:
        return text.translate(_FOLDED).split()
    found = _CODE.findall(text) if code else _WORDS.findall(text.lower())
    return [word for word in found if word]


def mix(numbers: np.ndarray) -> np.ndarray:
    """Scramble 64 bits (the finalizer of splitmix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = numbers ^ (numbers >> np.uint64(31))
    return mixed


def hash_words(words: Sequence[bytes]) -> np.ndarray:
    """Return the hash of each word, 8 bytes after 8 bytes: (words,) uint64."""
    sizes = np.fromiter(map(len, words), np.int64, len(words))
    hashes = sizes.astype(np.uint64) * np.uint64(OF_LENGTH)
    most = -(-int(sizes.max(initial=1)) // 8)
    padded = np.zeros((len(words), most * 8), np.uint8)
    inside = np.arange(most * 8) < sizes[:, None]
    padded[inside] = np.frombuffer(b"".join(words), np.uint8)
    for number, column in enumerate(padded.view("<u8").T):
        has_more = sizes > 8 * number
        hashes[has_more] = mix(hashes[has_more] ^ column[has_more])
    return hashes


def hash_runs(text: bytes, width: int, *, code: bool = False) -> np.ndarray:
    """Return the hash of each run of `width` words, in their order: (runs,) uint64."""
    hashes = hash_words(words_of(text, code=code))
    return mix(join_words(hashes, min(width, len(hashes)))) if len(hashes) else hashes


def join_words(hashes: np.ndarray, width: int) -> np.ndarray:
    """Return a polynomial of each run of `width` words, by the hashes of the words."""
    sums = np.zeros(max(0, len(hashes) - width + 1), np.uint64)
    for at in range(width):
        sums = sums * np.uint64(OF_WORD) + hashes[at : at + len(sums)]
    return sums


def compare(
    texts: list[bytes], pairs: np.ndarray, width: int, *, code: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many different runs two texts share, and how many they have together.

    `pairs` are (n, 2) numbers of texts; pairs with the same first text are fastest next to each
    other. Their quotient is the Jaccard similarity.
    """
    pairs = np.ascontiguousarray(pairs, np.int64)
    if kernel.compiled is not None:
        found = kernel.compiled.compare_texts(texts, pairs, code, width)
        counts = np.frombuffer(found, np.int64).reshape(-1, 2)
        return counts[:, 0], counts[:, 1]
    runs = [np.unique(hash_runs(text, width, code=code)) for text in texts]
    shared = [len(np.intersect1d(runs[a], runs[b], assume_unique=True)) for a, b in pairs.tolist()]
    sizes = np.fromiter(map(len, runs), np.int64, len(runs))
    both = np.array(shared, np.int64)
    return both, sizes[pairs].sum(axis=1) - both
