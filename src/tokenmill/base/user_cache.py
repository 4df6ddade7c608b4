"""The folder for files that can be made or fetched again."""

import os
from pathlib import Path


def user_cache(name: str) -> Path:
    """Return `$XDG_CACHE_HOME/tokenmill/NAME`, usually ~/.cache/tokenmill/NAME."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tokenmill" / name
