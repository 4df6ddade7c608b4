"""What is in a folder already: ours or not, whole or not, and is it what is asked for."""

import os
import re

from tokenmill.shards.manifest import FILE_NAME, FORMAT, PREPARATION_FOLDER

_OUR_MANIFEST = re.compile(rb'\A\s*\{\s*"format"\s*:\s*"%s"' % FORMAT.encode())


def is_ours(folder: str | os.PathLike[str]) -> bool:
    """Whether tokenmill made a dataset here, be it damaged, or began to make one.

    The name of the manifest alone proves nothing: another program may use it as well.
    """
    if os.path.isdir(os.path.join(folder, PREPARATION_FOLDER)):
        return True
    try:
        with open(os.path.join(folder, FILE_NAME), "rb") as file:
            return _OUR_MANIFEST.match(file.read(4096)) is not None
    except OSError:
        return False
