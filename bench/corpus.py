"""Text to measure with: any corpus, made as large as needed without repeating a line."""

import random
import re
import sysconfig
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import orjson

SEPARATOR = b"<|endoftext|>"
_WORD = re.compile(rb"[A-Za-z]+")


def documents(corpus: Path | None) -> list[bytes]:
    """The documents of a corpus file, or the modules of Python's own standard library."""
    if corpus is not None:
        return [doc for doc in corpus.read_bytes().split(SEPARATOR) if doc.strip()]
    return source_code(0)


def source_code(megabytes: int = 30) -> list[bytes]:
    """The modules of Python's own standard library, and of other packages up to this size."""
    library, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    modules = sorted(p for p in library.rglob("*.py") if "site-packages" not in p.parts)
    found = [text for path in modules if _is_text(text := path.read_bytes())]
    size = sum(map(len, found))
    for path in sorted(packages.rglob("*.py")):
        if size >= megabytes * 1_000_000:
            break
        if _is_text(text := path.read_bytes()):
            found.append(text)
            size += len(text)
    return found


def mix(corpus: Path | None) -> list[bytes]:
    """A web-like mix: 20 MB of the corpus and 30 MB of source code, in one fixed order."""
    prose, size = list[bytes](), 0
    for doc in documents(corpus):
        if size < 20_000_000:
            prose.append(doc)
            size += len(doc)
    mixed = prose + source_code()
    random.Random(0).shuffle(mixed)
    return mixed


def write_text(docs: list[bytes], path: Path, megabytes: int) -> int:
    """Write copies until there are so many megabytes; in each copy every line differs."""
    with open(path, "wb") as file:
        for copy, doc in ((copy, doc) for copy in count() for doc in docs):
            if file.tell() >= megabytes * 1_000_000:
                break
            file.write(_numbered(doc, copy))
            file.write(SEPARATOR)
        return file.tell()


def write_text_with_new_words(docs: list[bytes], path: Path, megabytes: int) -> int:
    """The same, but words that the corpus has once are other words in each copy.

    So there are more and more different words, as in real text: a letter becomes another vowel, or
    another consonant.
    """
    text = SEPARATOR.join([*docs, b""])
    words = Counter(_WORD.findall(text))
    # Every other one is a word that is there once.
    parts, kept = [], 0
    for match in _WORD.finditer(text):
        if words[match[0]] == 1:
            parts += [text[kept : match.start()], match[0]]
            kept = match.end()
    parts.append(text[kept:])
    once = b"\n".join(parts[1::2])
    with open(path, "wb") as file:
        copy = 0
        while file.tell() < megabytes * 1_000_000:
            parts[1::2] = once.translate(_other_letters(copy)).split(b"\n")
            file.write(b"".join(parts))
            copy += 1
        return file.tell()


def _other_letters(copy: int) -> bytes:
    """A table for `bytes.translate`: letters are exchanged, in each copy in another way."""
    generator = random.Random(copy)
    table = bytearray(range(256))
    for letters in (b"aeiou", b"bcdfghjklmnpqrstvwxyz") if copy else ():
        others = bytes(generator.sample(letters, len(letters)))
        for old, new in zip(letters, others, strict=True):
            table[old], table[old - 32] = new, new - 32
    return bytes(table)


def write_jsonl(docs: list[bytes], folder: Path, megabytes: int, files: int) -> int:
    """The same as JSON lines, in files of about one size: some peers give each worker a file."""
    with ExitStack() as stack:
        names = [folder / f"corpus-{number}.jsonl" for number in range(files)]
        opened = [stack.enter_context(open(name, "wb")) for name in names]
        copy = 0
        while sum(file.tell() for file in opened) < megabytes * 1_000_000:
            for number, doc in enumerate(docs):
                text = _numbered(doc, copy).decode()
                line = orjson.dumps({"id": f"{copy}-{number}", "text": text})
                opened[number % files].write(line + b"\n")
            copy += 1
        return sum(file.tell() for file in opened)


def _numbered(doc: bytes, copy: int) -> bytes:
    return doc if copy == 0 else doc.replace(b"\n", b" %d\n" % copy)


def _is_text(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and SEPARATOR not in text
