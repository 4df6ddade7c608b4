"""`download_tokenized_data()`: the first shards of FineWeb-Edu, or others, in a folder."""

import os
from typing import Any

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.hub.pull import download
from tokenmill.hub.remote_files import DEFAULT_REPO


@takes_keywords_of(download, but=("folder", "dry_run"))
def download_tokenized_data(
    data_dir: str | os.PathLike[str] | None = None, repo_id: str = DEFAULT_REPO, **options: Any
) -> str:
    """Fetch what `tokenmill.download` fetches, with its keywords; return the folder it is in."""
    return download(repo_id, data_dir, **options).folder
