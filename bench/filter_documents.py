"""Documents for the filters: English, code, and rubbish that lies at every rule's edge."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import corpus

_NOUNS = """
time year people way day man thing woman life child world school state family student group
country problem hand part place case week company system program question work number night
point home water room mother area money story fact month lot right study book eye job word
business issue side kind head house service friend father power hour game line end member law
car city name team minute idea
"""
_WORDS = _NOUNS.split()
_STOP_WORDS = ["the", "be", "to", "of", "and", "that", "have", "with"]
_MARKS = [
    "\u2022", "-", "#", "...", "\u2026", "(", ")", "[", "]", "{", "}", '"', "'", "!", "?", ".", ",",
    ";", ":", "/", "\\", "*", "+", "=", "<", ">", "|", "~", "^", "%", "$", "&", "@", "_",
    "\u20ac", "\u00a9",
]  # fmt: skip
_LONG = "x" * 1001
_SPECIAL = [
    "lorem ipsum", "Lorem Ipsum", "JavaScript", "javascript", "{", "[12]", "[edit]",
    "terms of use", "[citation needed]", "privacy policy", "Uses Cookies", "cookie policy",
    "use of cookies", _LONG, "caf\u00e9", "na\u00efve", "\u4f60\u597d",
    "\u041f\u0440\u0438\u0432\u0435\u0442", "don't", "it's", "e.g.", ":)",
    "http://a.example.com/b-c?d=e", "me@example.org", "10km", "3.14", "U.S.", "a.m.", "U+1F600",
    "\U0001f600", "and/or", "well-known", "end.Next", "1,000", "x=y", "...", "\u3002", "\u00a0",
]  # fmt: skip
_LINE_ENDS = (
    ["\n"] * 30
    + ["\n\n"] * 6
    + ["\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\n \n"]
)


def documents(english: Path | None, number: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """(kind, text) of so many documents of three kinds, in turns."""
    rng = random.Random(seed)
    kinds = {"code": _cut(corpus.source_code(60), rng), "rubbish": _rubbish(rng)}
    if english is not None:
        kinds["english"] = _cut(corpus.documents(english), rng, may_unwrap=True)
    left = dict.fromkeys(kinds, -(-number // len(kinds)))
    while any(left.values()):
        for kind, texts in kinds.items():
            if left[kind] and (text := next(texts)):
                left[kind] -= 1
                yield kind, text


def _cut(texts: list[bytes], rng: random.Random, *, may_unwrap: bool = False) -> Iterator[str]:
    """Parts of texts, again and again; parts of prose have their paragraphs in one line, or not."""
    while True:
        for whole in rng.sample(texts, len(texts)):
            text = whole.decode("utf-8", "replace")
            if may_unwrap and rng.random() < 0.6:
                text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
                text = re.sub(r"\n{2,}", rng.choice(["\n", "\n\n"]), text)
            lines = text.split("\n")
            size = rng.choice([6, 12, 24])
            at = 0
            while at < len(lines) and rng.random() < 0.8:
                stop = at + rng.randint(1, size)
                part = "\n".join(lines[at:stop])[: rng.choice([300, 400, 800])]
                at = stop
                if part.strip():
                    yield part


def _rubbish(rng: random.Random) -> Iterator[str]:
    makers = [
        _few_words, _word_lengths, _symbols, _line_marks, _stop_words, _repeated_lines, _ngrams,
        _sentences, _line_ends, _anything, _noise,
    ]  # fmt: skip
    while True:
        for maker in makers:
            yield maker(rng)


def _near(rng: random.Random, edge: float, spread: float = 0.1) -> int:
    """A whole number at an edge, or close to it."""
    return max(
        0,
        round(
            edge * (1 + rng.choice([0, 0, rng.uniform(-spread, spread)]))
            + rng.choice([-1, 0, 0, 1])
        ),
    )


def _prose(rng: random.Random, words: int, line: int = 14) -> str:
    """So many words in lines that end a sentence."""
    out = []
    for number in range(words):
        word = rng.choice(_STOP_WORDS) if rng.random() < 0.3 else rng.choice(_WORDS)
        is_last = number % line == line - 1 or number == words - 1
        out.append(word + (rng.choice(".?!") + "\n" if is_last else " "))
    return "".join(out).rstrip("\n")


def _few_words(rng: random.Random) -> str:
    words = _prose(rng, _near(rng, 50, 0.05), line=rng.randint(5, 20)).split(" ")
    marks = [rng.choice(_MARKS) for _ in range(rng.randint(0, 9))]
    return " ".join(words + marks)


def _word_lengths(rng: random.Random) -> str:
    length = rng.choice([3, 10])
    sizes = [max(1, length + rng.choice([-1, 0, 0, 0, 1])) for _ in range(rng.randint(60, 120))]
    words = ["".join(rng.choices("aeioubcdlmnrst", k=size)) for size in sizes]
    return "the of and " * (length == 3) + "that with that " + " ".join(words)


def _symbols(rng: random.Random) -> str:
    words = _prose(rng, rng.randint(60, 110)).split(" ")
    mark, edge = rng.choice(
        [("#", 0.1), ("...", 0.1), ("\u2026", 0.1), ("12", 0.2), ("1.5", 0.2), ("--", 0.2)]
    )
    for _ in range(_near(rng, len(words) * edge / (1 - edge))):
        words.insert(rng.randrange(len(words)), mark)
    return " ".join(words)


def _line_marks(rng: random.Random) -> str:
    lines = [_prose(rng, rng.randint(3, 9)) for _ in range(10)]
    share, before, after = rng.choice([
        (0.9, "- ", ""), (0.9, " \u2022 ", ""), (0.3, "", "... "), (0.3, "", "\u2026"),
        (0.88, "", " and"), (0.12, "", " of"), (0.67, "\n", ""),
    ])  # fmt: skip
    for number in rng.sample(range(len(lines)), min(len(lines), _near(rng, share * len(lines)))):
        lines[number] = before + lines[number].rstrip(".?!" if after else "") + after
    return "\n".join(lines)


def _stop_words(rng: random.Random) -> str:
    words = [rng.choice(_WORDS) for _ in range(rng.randint(55, 80))]
    for word in rng.sample([*_STOP_WORDS, "The", "AND", "too", "of."], rng.randint(1, 3)):
        words.insert(rng.randrange(len(words)), word)
    return " ".join(words) + "."


def _repeated_lines(rng: random.Random) -> str:
    lines = [_prose(rng, rng.randint(3, 9), line=99) for _ in range(rng.choice([10, 15]))]
    share = rng.choice([0.01, 0.1, 0.2, 0.3])
    again = [rng.choice(lines) for _ in range(_near(rng, share * len(lines) / (1 - share)))]
    lines += again
    rng.shuffle(lines)
    return rng.choice(["\n", "\n\n", "\n\n\n"]).join(lines)


def _ngrams(rng: random.Random) -> str:
    words = _prose(rng, rng.randint(60, 120)).split(" ")
    n = rng.randint(2, 12)
    phrase = words[3 : 3 + n]
    share = rng.choice([0.1, 0.12, 0.14, 0.16, 0.18, 0.2])
    for _ in range(_near(rng, share * len(words) / n)):
        at = rng.randrange(len(words))
        words[at:at] = phrase
    return " ".join(words)


def _sentences(rng: random.Random) -> str:
    lines = []
    for _ in range(rng.randint(2, 12)):
        words = [rng.choice(_WORDS) for _ in range(rng.randint(1, 9))]
        if rng.random() < 0.3:
            words.insert(rng.randrange(len(words) + 1), rng.choice(_SPECIAL))
        words[-1] += rng.choice(
            [".", ".", "?", "!", '"', "'", "...", "", ".)", '."', " .", ".[3]", ". [3]"]
        )
        lines.append(rng.choice(["", "", " ", "\t"]) + " ".join(words) + rng.choice(["", "", " "]))
    return "\n".join(lines)


def _line_ends(rng: random.Random) -> str:
    parts = [_prose(rng, rng.randint(1, 30)) for _ in range(rng.randint(2, 9))]
    return "".join(part + rng.choice(_LINE_ENDS) for part in parts)


def _anything(rng: random.Random) -> str:
    pool = _WORDS + _STOP_WORDS + _MARKS + _SPECIAL
    words = [
        rng.choice(pool) + rng.choice(["", "", "", ".", ",", ")"])
        for _ in range(rng.randint(1, 90))
    ]
    return "".join(word + rng.choice([" "] * 12 + _LINE_ENDS[:34]) for word in words)


def _noise(rng: random.Random) -> str:
    letters = "abcdeXYZ019 .,;:!?-_=/()[]<>#'\"\n\t\u2026\u2022\u2019\u00e9\u4e2d\U0001f600"
    text = "".join(rng.choices(letters, k=rng.randint(1, 500)))
    return text if rng.random() < 0.5 else _prose(rng, 60) + "\n" + text[:400]
