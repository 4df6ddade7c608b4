"""How a text is split into words: one rule for all filters, that of docs/reference/words.md.

White space separates chunks, and in a chunk, in this order until nothing changes:

1. a form that is known stays whole or has known parts: `don't` is `do`, `n't`; `e.g.`, `:)` stay;
2. a mark at the beginning is a word: a bracket, quote, currency, icon, or dots;
3. so is one at the end, or a unit after a digit, `'s`, or a full stop after a small letter;
4. what is left is cut inside: `a-b`, `a/b`, `a=b`, `end.Next`; but a web address stays whole.

At last, words that stand together and are a known form, such as `:` and `)`, become that form. It
is what spaCy does with English, so that thresholds that were tuned there mean the same here.

The kernel has the rule in C (words.c); here it is in Python, as it is meant.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise, product

import numpy as np

from tokenmill.text.filters.characters import (
    BEFORE_DOT,
    CLOSES,
    CUTS,
    LETTER,
    LOWER,
    OPENS,
    QUOTE,
    UPPER,
    classes,
    with_class,
)

Tables = tuple[np.ndarray, np.ndarray]
_FORM = np.dtype(
    [("text", "u1", 16), ("size", "<u4"), ("kind", "<u4"), ("cuts", "<u4"), ("plain", "<u4")]
)
_IS_FORM, _IS_MERGED, _IS_UNIT = 1, 2, 4
_MOST_MERGED = 15

_PRONOUNS = "i you he she it we they"
_QUESTIONS = "who what when where why how there"
_ENDINGS = [  # words, and what may follow them, with and without an apostrophe
    ("i", "m m_a"),
    (f"{_PRONOUNS} {_QUESTIONS} that this these those", "ll ll_ve d d_ve"),
    (f"i you we they {_QUESTIONS} these those could might must should would", "ve"),
    (f"you we they {_QUESTIONS} these those", "re"),
    (f"he she it {_QUESTIONS} that this", "s"),
]
_WITH_NOT_HAVE = "ca could do does did had may might must need ought sha should wo would"
_WITH_NOT = f"{_WITH_NOT_HAVE} ai are is was were have has dare"
_WORDS_ALIKE = "ill its hell shell shed were well whore"  # without an apostrophe they are words
_PARTS = """can|not gon|na got|ta let|'s c'm|on not|'ve not|ve how|'d|'y"""  # also with a capital
_WHOLE_ANY_CASE = "'cause 'cos 'coz 'cuz ma'am o'clock co. e.g. i.e. doin' goin' lovin' havin'"
_WHOLE_ANY_CASE += " nothin' nuthin' ol' somethin'"
_WHOLE = """'em 'll 'nuff 's 'S \u2018s \u2018S 're 'd 'bout ' '' \\") and/or w/o C++ <space>
 a.m. p.m. Adm. Ak. Ala. Apr. Ariz. Ark. Aug. Bros. Calif. Colo. Conn. Corp. D.C. Dec. Del. Dr.
 E.G. Feb. Fla. Ga. Gen. Gov. I.E. Ia. Id. Ill. Inc. Ind. Jan. Jr. Jul. Jun. Kan. Kans. Ky. La.
 Ltd. Mar. Mass. Md. Messrs. Mich. Minn. Miss. Mo. Mont. Mr. Mrs. Ms. Mt. N.C. N.D. N.H. N.J.
 N.M. N.Y. Neb. Nebr. Nev. Nov. Oct. Okla. Ore. Pa. Ph.D. Prof. Rep. Rev. S.C. Sen. Sep. Sept.
 St. Tenn. Va. Wash. Wis. vs. v.s. :) :-) :)) :-)) :))) :-))) (: (-: =) (= :] :-] [: [-: [= =]
 :o) (o: :} :-} 8) 8-) (-8 ;) ;-) (; (-; :( :-( :(( :-(( :((( :-((( ): )-: =( >:( :') :'-) :'(
 :'-( :/ :-/ =/ =| :| :-| ]= =[ :1 :P :-P :p :-p :O :-O :o :-o :0 :-0 :() >:o :* :-* :3 :-3 =3 :>
 :-> :X :-X :x :-x :D :-D ;D ;-D =D xD XD xDD XDD 8D 8-D ^_^ ^__^ ^___^ >.< >.> <.< ._. ;_; -_-
 -__- v.v V.V v_v V_V o_o o_O O_o O_O 0_o o_0 0_0 o.O O.o O.O o.o 0.0 o.0 0.o @_@ <3 <33 <333 </3
 (^_^) (-_-) (._.) (>_<) (*_*) ><(((*>"""
_UNITS = """km km\u00b2 km\u00b3 m m\u00b2 m\u00b3 dm dm\u00b2 dm\u00b3 cm cm\u00b2 cm\u00b3 mm
 mm\u00b2 mm\u00b3 ha \u00b5m nm yd in ft kg g mg \u00b5g t lb oz m/s km/h kmh mph hPa Pa mbar mb MB
 kb KB gb GB tb TB T G M K % + $ US$ C$ A$ \u00a3 \u20ac \u00a5 \u20b9"""
_HOST = "A-Za-z0-9\u00a1-\uffff"


@cache
def known_forms() -> dict[str, list[str]]:
    """Forms that no other rule cuts, with the words that they are."""
    forms = {form: [form] for form in _WHOLE.split()}
    forms |= {
        f"{letter}.": [f"{letter}."] for letter in "abcdefghijklmnopqrstuvwxyz\u00e4\u00f6\u00fc"
    }
    for form in _WHOLE_ANY_CASE.split():
        capital = form[0].upper() + form[1:] if form[0] != "'" else "'" + form[1:].capitalize()
        forms |= {form: [form], capital: [capital]}
    for parts in _PARTS.split():
        for first, *rest in [parts.split("|"), parts.capitalize().split("|")]:
            forms["".join([first, *rest])] = [first, *rest]
    forms |= {"y'all": ["y'", "all"], "yall": ["y", "all"]}
    for hour, half in product(range(1, 13), ["am", "a.m.", "pm", "p.m."]):
        forms[f"{hour}{half}"] = [str(hour), half]
    for word, *rest in _contractions():
        forms |= {"".join(form): form for form in ([word, *rest], [word.title(), *rest])}
    for form, words in list(forms.items()):
        if "'" in form:
            forms[form.replace("'", "\u2019")] = [word.replace("'", "\u2019") for word in words]
    return forms


def _contractions() -> Iterator[list[str]]:
    for words, endings in _ENDINGS:
        for word, ending in product(words.split(), endings.split()):
            parts = ending.split("_")
            yield [word, *(part if part == "a" else f"'{part}" for part in parts)]
            if word + "".join(parts) not in _WORDS_ALIKE.split():
                yield [word, *parts]
    for word in _WITH_NOT.split():
        yield from ([word, "n't"], [word, "nt"])
        if word in _WITH_NOT_HAVE.split():
            yield from ([word, "n't", "'ve"], [word, "nt", "ve"])


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """What is cut off at the beginning, at the end, inside; and web addresses."""
    letter, lower, upper, quote = map(with_class, (LETTER, LOWER, UPPER, QUOTE))
    units = "|".join(map(re.escape, _UNITS.split()))
    beginning = rf"[{with_class(OPENS)}]|\+(?![0-9])|\.\.+|US\$|[AC]\$"
    end = [
        rf"[{with_class(CLOSES)}]|['\u2019][sS]|\.\.+|(?<=[0-9])(?:{units})",
        rf"(?<=[{lower}{with_class(BEFORE_DOT)}0-9])\.|(?<=[{upper}][{upper}])\.",
    ]
    inside = [
        rf"\.\.+|[{with_class(CUTS)}]|(?<=[0-9])[+\-*^](?=[0-9-])",
        rf"(?<=[{lower}{quote}])\.(?=[{upper}{quote}])|(?<=[{letter}]),(?=[{letter}])",
        rf"(?<=[{letter}0-9])(?:-{{1,3}}|\u2013|\u2014{{1,2}}|~|[:<>=/])(?=[{letter}])",
    ]
    host = rf"(?:[{_HOST}](?:[{_HOST}_-]*[{_HOST}])?\.)+[{lower}]{{2,}}"
    address = rf"(?:[A-Za-z0-9_+.-]{{2,}}://)?(?:\S+@)?{host}(?::[0-9]{{2,5}})?(?:[/?#]\S*)?"
    ends = rf"(?:{'|'.join(end)})\Z"
    return tuple(map(re.compile, (beginning, ends, "|".join(inside), rf"{address}\Z")))


def split_words(text: str) -> list[str]:
    """Return the words of a text.

    >>> split_words("Don't stop (really).")
    ['Do', "n't", 'stop', '(', 'really', ')', '.']
    """
    return [word for chunk in text.split() for word in _merged(_split(chunk, known_forms()))]


def _split(chunk: str, forms: dict[str, list[str]]) -> list[str]:
    """Steps 1 to 4 for one chunk."""
    find_beginning, find_end, *_ = _patterns()
    before: list[str] = []
    after: list[str] = []
    while chunk and chunk not in forms:
        opening = find_beginning.match(chunk)
        start = opening.end() if opening else 0
        if start and chunk[start:] in forms:
            return [*before, chunk[:start], *forms[chunk[start:]], *reversed(after)]
        closing = find_end.search(chunk[start:])
        stop = start + closing.start() if closing else len(chunk)
        if closing and chunk[:stop] in forms:
            return [*before, *forms[chunk[:stop]], chunk[stop:], *reversed(after)]
        if not opening and not closing:
            break
        before += [chunk[:start]] * bool(opening)
        after += [chunk[stop:]] * bool(closing)
        chunk = chunk[start:stop]
    return [*before, *(forms.get(chunk) or _split_inside(chunk)), *reversed(after)]


def _split_inside(chunk: str) -> list[str]:
    *_, find_inside, is_address = _patterns()
    cuts = [cut.span() for cut in find_inside.finditer(chunk) if cut.start()]
    if not cuts or is_address.match(chunk):
        return [chunk] if chunk else []
    edges = [0, *(edge for cut in cuts for edge in cut), len(chunk)]
    return [chunk[a:b] for a, b in pairwise(edges) if a < b]


@cache
def _merged_forms() -> dict[tuple[str, ...], str]:
    """Forms of several words that become one again, by the words that they would be."""
    forms = {tuple(_split(form, {})): form for form in known_forms()}
    return {words: form for words, form in forms.items() if len(words) > 1}


def _merged(words: list[str]) -> list[str]:
    """The last step: longest forms first; a word in one that is not taken is not free either."""
    forms, count = _merged_forms(), len(words)
    longest = min(count, _MOST_MERGED)
    taken = [False] * count
    chosen: dict[int, int] = {}
    for length in range(longest, 1, -1):
        for start in range(count - length + 1):
            if tuple(words[start : start + length]) in forms:
                if not taken[start] and not taken[start + length - 1]:
                    chosen[start] = length
                taken[start : start + length] = [True] * length
    merged: list[str] = []
    at = 0
    while at < count:
        length = chosen.get(at, 1)
        found = tuple(words[at : at + length])
        merged += known_forms()[forms[found]] if length > 1 else found
        at += length
    return merged


@cache
def tables() -> Tables:
    """The rule as the kernel reads it: classes of characters, and forms."""
    forms, units = known_forms(), _UNITS.split()
    merged = {form: words for words, form in _merged_forms().items()}
    rows = np.zeros(len({*forms, *units}) + 1, _FORM)  # the first one is no form
    for number, form in enumerate(sorted({*forms, *units}), 1):
        text = form.encode()
        kind = _IS_FORM * (form in forms) | _IS_MERGED * (form in merged)
        rows[number]["text"][: len(text)] = list(text)
        rows[number]["size"], rows[number]["kind"] = len(text), kind | _IS_UNIT * (form in units)
        rows[number]["cuts"] = _cuts(forms.get(form, [form]))
        rows[number]["plain"] = _cuts(merged.get(form, [form]))
    return classes(), rows


def _cuts(words: Sequence[str]) -> int:
    """A bit for each byte at which a word begins, but the first."""
    edges = np.cumsum([len(word.encode()) for word in words])[:-1].tolist()
    return sum(1 << edge for edge in edges)
