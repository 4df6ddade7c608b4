"""The names and arguments of the scripts that this library grew from, each a thin layer on it."""

import importlib

TYPE_CHECKING = False  # as in tokenmill/__init__.py

if TYPE_CHECKING:
    from tokenmill.compat.fetch_shards import download_tokenized_data as download_tokenized_data
    from tokenmill.compat.get_batch import GPTDataLoader as GPTDataLoader
    from tokenmill.compat.get_batch import TokenizedDataset as TokenizedDataset
    from tokenmill.compat.local_data_module import LocalDataModule as LocalDataModule
    from tokenmill.compat.local_files import LocalTokenizedDataset as LocalTokenizedDataset
    from tokenmill.compat.local_files import (
        LocalTokenizedDatasetFixed as LocalTokenizedDatasetFixed,
    )
    from tokenmill.compat.local_files import StreamingDataset as StreamingDataset
    from tokenmill.compat.local_files import create_dataloaders as create_dataloaders

# Imported when first asked for: Lightning comes with LocalDataModule only, torch not with a
# download.
_HOME_OF = {
    "GPTDataLoader": "tokenmill.compat.get_batch",
    "LocalDataModule": "tokenmill.compat.local_data_module",
    "LocalTokenizedDataset": "tokenmill.compat.local_files",
    "LocalTokenizedDatasetFixed": "tokenmill.compat.local_files",
    "StreamingDataset": "tokenmill.compat.local_files",
    "TokenizedDataset": "tokenmill.compat.get_batch",
    "create_dataloaders": "tokenmill.compat.local_files",
    "download_tokenized_data": "tokenmill.compat.fetch_shards",
}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tokenmill.compat' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
