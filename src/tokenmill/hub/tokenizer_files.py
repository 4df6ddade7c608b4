"""The tokenizer files of a model on the hub: fetched once, with their hashes, and kept here."""

from pathlib import Path
from urllib.parse import quote

from tokenmill.base.atomic import user_cache
from tokenmill.hub.checked_files import CheckedFiles
from tokenmill.hub.pull import download

FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "tokenizer.model")


def fetch_tokenizer(name: str) -> tuple[Path, str]:
    """Return the folder of `OWNER/NAME` or `OWNER/NAME@REVISION`, and the name with its commit,
    which is the one that the revision named at first: from then on the hub is not asked."""
    repo_id, _, revision = name.partition("@")
    revision = revision or "main"
    folder = user_cache("tokenizers") / quote(f"{repo_id}@{revision}", safe="@")
    record = CheckedFiles(folder, repo_id)
    fixed = record.commit_of(revision)[0] or revision
    done = download(
        repo_id, folder, patterns=FILES, revision=fixed, progress=False, repo_type="model"
    )
    record.note_commit(done.commit, done.commit, record.commit_of(revision)[1])
    return folder, f"{repo_id}@{done.commit}"
