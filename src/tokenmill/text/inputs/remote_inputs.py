"""Inputs in a bucket: an object, everything below a prefix, or a glob; rules as in `sources.py`."""

import glob
import os

from tokenmill.base.address import check_address
from tokenmill.errors import PrepareError
from tokenmill.text.inputs.file_kind import is_taken, make_source
from tokenmill.text.inputs.open_input import Source, printable

REQUESTS_AT_ONCE = 16


def expand(text: str, passed_over: list[str]) -> list[str]:
    """Addresses of the objects that one input means."""
    from tokenmill.stores import objects

    address = check_address(text)
    if glob.has_magic(address):
        paths = objects.list_matching(address)
    elif not text.endswith("/") and objects.find(address) is not None:
        return [address]
    else:
        below = objects.list_below(address)
        paths = [path for path in below if is_taken(path.removeprefix(address))]
        passed_over += sorted(set(below) - set(paths), key=os.fsencode)
    if not paths:
        raise PrepareError(
            f"nothing that can be read is at {printable(text)}",
            hint="give an object, a prefix that holds .txt, .jsonl, .csv or .parquet, or a glob",
            source=printable(text),
        )
    return paths


def make_sources(names: dict[str, str]) -> list[Source]:
    """Sources for these addresses, many at a time: each costs three round trips."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        return list(pool.map(make_source, names, names.values()))
