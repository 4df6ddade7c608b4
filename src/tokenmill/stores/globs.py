"""Which objects match a glob, by the rules for files."""

import re

from tokenmill.stores.objects import list_below

_GLOB_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[(!?)([^\]]+)\]|.", re.DOTALL)
_MEANING = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_IN_SET = str.maketrans({"\\": r"\\", "[": r"\[", "^": r"\^"})


def match(address: str) -> list[str]:
    """Addresses of the objects that a glob means, in the order of their keys."""
    folder = re.split(r"[*?\[]", address)[0].rpartition("/")[0]
    matches = glob_pattern(address)
    return [path for path in list_below(folder) if matches.fullmatch(path)]


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """A glob as for files: `*` and `?` stay inside a folder, `**/` goes through any number."""
    parts = []
    for token in _GLOB_TOKEN.finditer(pattern):
        negated, some = token.groups()
        if some:
            parts.append(f"[{'^' if negated else ''}{some.translate(_IN_SET)}]")
        else:
            parts.append(_MEANING.get(token[0], re.escape(token[0])))
    return re.compile("".join(parts), re.DOTALL)
