"""Push a dataset to the Hugging Face hub: verified first, then all of it in one commit.

The large files go up before the commit is made, so a push that stops leaves no half dataset, and
the next one does not send again what has arrived. docs/guides/hub.md lists the files.
"""

import io
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenmill.base.human import plural
from tokenmill.base.retry import Retry, RetryClock
from tokenmill.base.signatures import checks_arguments
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import CorruptShardError, DownloadError, MissingExtraError, UploadError
from tokenmill.hub.hub_client import Hub, hub_package, is_offline
from tokenmill.shards.card import dataset_card
from tokenmill.shards.manifest import FILE_NAME as MANIFEST
from tokenmill.shards.manifest import Manifest
from tokenmill.shards.verify import verify

CARD = "README.md"
# Of the sample that the hub's viewer shows: a few hundred kB. To the viewer, shards are only bytes.
SAMPLE_DOCUMENTS = 100
SAMPLE_TOKENS_PER_DOCUMENT = 4096  # a book is shown by its first pages
# What a push of a dataset with fewer shards must remove.
_OF_A_DATASET = re.compile(
    r"[A-Za-z0-9._-]+/shard_\d+\.(?:bin|ends)(?:\.zst)?|sample/\w+\.parquet"
    r"|sources-[0-9a-f]{16}\.jsonl"
)


@dataclass(frozen=True)
class Upload:
    """What a push did."""

    repo_id: str
    revision: str
    commit: str
    url: str
    files: list[str]
    removed: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@checks_arguments
def upload(
    folder: str | os.PathLike[str],
    repo_id: str,
    *,
    private: bool = False,
    revision: str = "main",
    message: str | None = None,
    sample: bool = True,
    token: str | bool | None = None,
    retry: Retry | None = None,
    note: Callable[[str], None] | None = None,
) -> Upload:
    """Verify the dataset in `folder`, push it to the dataset repository, and compare the hashes.

    A repository that does not exist is made (`private` if asked); a branch `revision` likewise.
    """
    folder = Path(folder)
    manifest = Manifest.load(folder)
    say = note or (lambda text: None)
    say(f"verifying {folder}")
    for finding in verify(folder, full=True):
        if finding.is_error:
            raise CorruptShardError(
                f"{folder / finding.file}: expected {finding.expected}, found {finding.found}",
                hint=finding.remedy,
            )
    if is_offline():
        raise UploadError(f"{repo_id}: HF_HUB_OFFLINE is set", hint="unset HF_HUB_OFFLINE")
    extra = _sample_files(folder, list(manifest.splits)) if sample else {}
    extra[CARD] = _card(folder, list(extra), manifest)
    local = {name: folder / name for name in [*manifest.files(), MANIFEST]}

    hub = Hub(repo_id, revision, clock=RetryClock(retry or Retry()), token=token)
    try:
        say(f"pushing {plural(len(local) + len(extra), 'file')} to {repo_id}")
        return _push(hub, local, extra, private, message or "Upload a tokenmill dataset")
    except DownloadError as error:
        raise UploadError(error.message, hint=error.hint) from None


def _push(
    hub: Hub, local: dict[str, Path], extra: dict[str, bytes], private: bool, message: str
) -> Upload:
    package = hub_package()
    api = hub.api
    repo = hub.repo_id
    kind = {"repo_type": "dataset"}
    hub.ask(api.create_repo, repo, private=private, exist_ok=True, **kind)
    if hub.revision != "main":
        hub.ask(api.create_branch, repo, branch=hub.revision, exist_ok=True, **kind)
    before = [file.path for file in hub.files(hub.commit()) if _OF_A_DATASET.fullmatch(file.path)]
    stale = sorted({*before} - {*local, *extra})

    def commit() -> Any:
        # Operations are made again for each try: the commit changes them. The manifest is last.
        small = [package.CommitOperationAdd(path, data) for path, data in extra.items()]
        large = [package.CommitOperationAdd(path, str(place)) for path, place in local.items()]
        all_of_it = [*map(package.CommitOperationDelete, stale), *small, *large]
        options = {"commit_message": message, "revision": hub.revision, **kind}
        return api.create_commit(repo, all_of_it, **options)

    made = hub.ask(commit)
    _compare(hub, made.oid, local, extra)
    url = f"{hub.endpoint}/datasets/{repo}"
    return Upload(repo, hub.revision, made.oid, url, sorted([*local, *extra]), stale)


def _compare(hub: Hub, commit: str, local: dict[str, Path], extra: dict[str, bytes]) -> None:
    there = {file.path: file for file in hub.files(commit)}
    for path in [*local, *extra]:
        file = there.get(path)
        if file is None or not file.has_digest(local.get(path) or extra[path]):
            raise UploadError(
                f"{path} of {hub.repo_id} at {commit[:12]} is not what was sent",
                hint="push again; if it stays so, something between here and the hub changes bytes",
            )


def _sample_files(folder: Path, splits: list[str]) -> dict[str, bytes]:
    """Name -> a Parquet file of the first documents of a split: number, tokens, ids, text."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        error = MissingExtraError("a sample for the viewer", package="pyarrow", extra="parquet")
        error.hint = f"{error.hint}, or push without one: sample=False"
        raise error from None
    opened = ((split, open_dataset(folder, split)) for split in splits)
    return {f"sample/{split}.parquet": _parquet(data) for split, data in opened if data.num_tokens}


def _parquet(data: TokenDataset) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for number in range(min(SAMPLE_DOCUMENTS, data.num_documents or 0)):
        start, stop = data.document_range(number)
        ids = data.tokens(start, min(stop, start + SAMPLE_TOKENS_PER_DOCUMENT))
        content = ids[ids != data.end_of_text_id] if stop - start == len(ids) else ids
        if data.begin_token_id is not None:
            content = content[content != data.begin_token_id]
        rows.append((number, stop - start, ids.tolist(), data.decode(content)))
    kinds = {
        "document": pa.int64(),
        "num_tokens": pa.int64(),
        "tokens": pa.list_(pa.uint16() if data.dtype.itemsize == 2 else pa.uint32()),
        "text": pa.string(),
    }
    table = pa.Table.from_pylist(
        [dict(zip(kinds, row, strict=True)) for row in rows], pa.schema(kinds)
    )
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def _card(folder: Path, sample_paths: list[str], manifest: Manifest) -> bytes:
    """The dataset's own card, with the sample named for the viewer unless it names its data."""
    package = hub_package()
    if (path := folder / CARD).is_file():
        text = path.read_text(encoding="utf-8")
    else:
        command = "tokenmill prepare INPUT... -o OUT"
        text = dataset_card(manifest, command, name=folder.resolve().name)
    card = package.DatasetCard(text, ignore_metadata_errors=False)
    if sample_paths and not card.data.get("configs"):
        files = [{"split": Path(p).stem, "path": p} for p in sample_paths]
        card.data.pop("viewer")  # ours says false: token shards show nothing there
        card.data["configs"] = [{"config_name": "sample", "data_files": files}]
    return str(card).encode()
