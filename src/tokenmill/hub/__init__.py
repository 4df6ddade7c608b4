"""The Hugging Face hub: fetch token shards from it, push a dataset to it.

pull.py            a download step by step: list, choose, compare, fetch, record
remote_files.py    a file as the hub lists it, its hash, and which files a request means
hub_client.py      what we ask of huggingface_hub: a commit, its files, the bytes of one
checked_files.py   what was checked before, so that it is neither read nor fetched again
push.py            a verified dataset, its card and a sample for the viewer, in one commit
"""

from tokenmill.base.retry import Retry
from tokenmill.hub.pull import Download, download
from tokenmill.hub.push import Upload, upload

__all__ = ["Download", "Retry", "Upload", "download", "upload"]
