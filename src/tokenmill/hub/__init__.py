"""The Hugging Face hub: fetch token shards from it, push a dataset to it.

pull.py       the way of a download, told once: list, choose, compare, fetch, record
client.py     what we ask of huggingface_hub: a commit, its files, one body
files.py      a file as the hub lists it, its hash, and which files a request means
fetch.py      one file: resume, retry, check, and only then its final name
parallel.py   several files at a time; the first failure, or Ctrl-C, stops all
partial.py    a file on its way, under a name of its own
record.py     what was checked before, so that it is neither read nor fetched again
retry.py      how long to wait and when to give up
redact.py     no secret in a message
progress.py   bars on a terminal, lines in a log
push.py       a verified dataset, its card and a sample, in one commit
sample.py     the first documents of each split as Parquet, for the hub's viewer
"""

from tokenmill.base.retry import Retry
from tokenmill.hub.pull import Download, download, download_tokenized_data
from tokenmill.hub.push import Upload, upload

__all__ = ["Download", "Retry", "Upload", "download", "download_tokenized_data", "upload"]
