"""Names of compressions, such as `zstd:3`: checked, and read. Imports nothing large."""

LEVELS = range(1, 23)
USUAL_LEVEL = 3
NONE = "none"


def checked_compression(asked: str | None) -> str | None:
    """Return the full name of a compression, such as `zstd:3`; None for no compression.

    >>> checked_compression("zstd")
    'zstd:3'
    """
    if asked is None or asked == NONE:
        return None
    codec, _, level = asked.partition(":")
    level = level or str(USUAL_LEVEL)
    if codec != "zstd" or not level.isdecimal() or int(level) not in LEVELS or asked[-1] == ":":
        raise ValueError(
            f"compress is {asked!r}; it must be zstd, zstd:LEVEL with a level from {LEVELS[0]} to "
            f"{LEVELS[-1]}, or {NONE}"
        )
    return f"{codec}:{int(level)}"


def level_of(compression: str) -> int:
    """Return the level in a full name."""
    return int(compression.partition(":")[2])
