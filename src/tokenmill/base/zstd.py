"""The zstd library: of Python itself from 3.14 on, before that the same as a package."""

import importlib
import sys
from typing import Any


def zstd_library() -> Any:
    """Import the module; it takes 5 ms."""
    in_standard_library = sys.version_info >= (3, 14)
    return importlib.import_module("compression.zstd" if in_standard_library else "backports.zstd")
