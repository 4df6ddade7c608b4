"""Text to measure with: any corpus, made as large as needed without repeating a line."""

import sysconfig
from contextlib import ExitStack
from pathlib import Path

import orjson

SEPARATOR = b"<|endoftext|>"


def documents(corpus: Path | None) -> list[bytes]:
    """The documents of a corpus file, or the modules of Python's own standard library."""
    if corpus is not None:
        return [doc for doc in corpus.read_bytes().split(SEPARATOR) if doc.strip()]
    library = Path(sysconfig.get_path("stdlib"))
    modules = sorted(p for p in library.rglob("*.py") if "site-packages" not in p.parts)
    return [text for path in modules if _is_utf8(text := path.read_bytes())]


def write_text(docs: list[bytes], path: Path, megabytes: int) -> int:
    """Write copies until there are so many megabytes; in each copy every line differs."""
    with open(path, "wb") as file:
        copy = 0
        while file.tell() < megabytes * 1_000_000:
            for doc in docs:
                file.write(_numbered(doc, copy))
                file.write(SEPARATOR)
            copy += 1
        return file.tell()


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


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
