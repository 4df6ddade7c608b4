"""Text of many scripts: prose and code from a corpus, and words that are made up in other scripts.

Chinese, Arabic and Hindi here are random words of their letters, common ones more often, as in
real text; emoji are joined and coloured; and the last script is prose in a broken normal form, with
marks and white space of all kinds. All is a function of the seed.
"""

import itertools
import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from corpus import SEPARATOR

SCRIPTS = ("corpus", "code", "Chinese", "Arabic", "Hindi", "emoji", "broken normal forms")
_LETTERS = {
    "Chinese": [chr(p) for p in range(0x4E00, 0x5E00)],
    "Arabic": [chr(p) for p in (*range(0x0621, 0x063B), *range(0x0641, 0x0653))],
    "Hindi": [chr(p) for p in (*range(0x0905, 0x093A), *range(0x093E, 0x094E))],
}
_EMOJI = [chr(p) for p in (*range(0x1F300, 0x1F650), *range(0x2600, 0x27C0))]
_JOINERS = ["", "", "", "\u200d", "\ufe0f", "\U0001f3fd", " "]
_MARKS = [chr(p) for p in range(0x0300, 0x0340)]
_BLANKS = [" ", "  ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028"]
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


POOL = 700  # texts of each script, of which halves are joined


def write_texts(docs: list[bytes], code: list[bytes], path: Path, megabytes: int) -> None:
    """Write so many megabytes of texts, each of two scripts, and none twice."""
    made = itertools.islice(texts(docs, code, seed=2), POOL * len(SCRIPTS))
    pool = [text.decode() for text in made]
    chance, size = random.Random(3), 0
    with open(path, "wb") as file:
        for number in itertools.count():
            first, second = pool[number % len(pool)], chance.choice(pool)
            half = first[: chance.randrange(len(first))] + second[chance.randrange(len(second)) :]
            size += file.write(half.encode() + b" %d" % number)
            file.write(SEPARATOR)
            if size >= megabytes * 1_000_000:
                return


def texts(docs: list[bytes], code: list[bytes], seed: int) -> Iterator[bytes]:
    """Texts of about 2 KB without end, the scripts in turn."""
    chance = random.Random(seed)
    words = {script: _words(chance, letters) for script, letters in _LETTERS.items()}
    for number in itertools.count():
        script = SCRIPTS[number % len(SCRIPTS)]
        if script in words:
            yield _sentences(chance, words[script], "" if script == "Chinese" else " ").encode()
        elif script == "emoji":
            signs = (chance.choice(_EMOJI) + chance.choice(_JOINERS) for _ in range(400))
            yield ("".join(signs) + f" {number}").encode()
        else:
            text = _part(chance, code if script == "code" else docs)
            yield (_break(chance, text) if script.startswith("broken") else text).encode()


def _words(chance: random.Random, letters: list[str]) -> list[str]:
    return ["".join(chance.choices(letters, k=chance.randint(1, 7))) for _ in range(5000)]


def _sentences(chance: random.Random, words: list[str], space: str) -> str:
    """Word number n is about as common as 1 / n."""
    places = (int(len(words) ** chance.random()) - 1 for _ in range(300))
    text = space.join(words[place] for place in places)
    stop = "\u3002" if not space else ". "
    return stop.join([text, str(chance.randrange(10**8)), text[: chance.randrange(1, 80)], ""])


def _part(chance: random.Random, docs: list[bytes]) -> str:
    doc = chance.choice(docs)
    start = chance.randrange(max(1, len(doc) - 2000))
    number = chance.randrange(10**6)  # so that no text comes twice
    return doc[start : start + 2000].decode("utf-8", "ignore") + f" {number}"


def _break(chance: random.Random, text: str) -> str:
    letters = list(unicodedata.normalize(chance.choice(_FORMS), text))
    for at in chance.choices(range(len(letters)), k=len(letters) // 8):
        letters[at] += chance.choice(chance.choice((_MARKS, _BLANKS)))
    return "".join(letters)
