"""The Hugging Face hub: fetch token shards from it (pull.py), push a dataset to it (push.py)."""

from tokenmill.base.retry import Retry
from tokenmill.hub.pull import Download, download
from tokenmill.hub.push import Upload, upload

__all__ = ["Download", "Retry", "Upload", "download", "upload"]
