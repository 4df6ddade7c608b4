"""commit: tokenizer, card and manifest are written, the manifest last."""

import itertools
import os
import re
import shlex
import urllib.parse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import xxhash

from tokenmill.base.atomic import sync_file, sync_folder, write_atomically
from tokenmill.preparation.planning.plan import TOKENIZER_FILE, Plan
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.stages.accounts import TEST_SETS, PreparationOutcome
from tokenmill.preparation.workspace.workspace import PUBLISHED
from tokenmill.shards.card import write_tokenizer_and_card
from tokenmill.shards.manifest import FileEntry, Manifest, SourceEntry, SplitEntry, TokenizerEntry

_SYNCED_AT_ONCE = 16
_FEW = 4  # are synced before threads are imported
MOST_LISTED = 10_000  # inputs in a manifest; of more, it names folders, and a file lists all
USUAL_FRACTION = Settings().val_fraction


def commit(
    plan: Plan,
    previous: Manifest | None,
    known_sources: Sequence[SourceEntry],
    outcome: PreparationOutcome,
    read: Callable[[str], bytes],
) -> Manifest:
    """Write tokenizer, card, manifest; `known_sources` are those of the dataset added to, whose
    small files `read` gives."""
    out = plan.workspace.out_dir
    state = plan.workspace.read(TOKENIZER_FILE)
    sources = list(known_sources)
    for source, documents in zip(plan.sources, outcome.documents_by_source, strict=True):
        sources.append(SourceEntry(source.name, source.size, documents))
    settings = {**plan.settings.to_json(for_manifest=True), "split": outcome.split}
    if plan.held_out_splits:
        from tokenmill.preparation.planning.val_inputs import files_by_split

        settings["val_input"] = files_by_split(plan.sources)
    manifest = Manifest(
        tokenizer=TokenizerEntry.of(plan.tokenizer, state, plan.begin_token_id, plan.folder),
        dtype=plan.dtype.name,
        tokens_per_shard=plan.settings.tokens_per_shard,
        splits=outcome.splits,
        settings=settings,
        accounts=outcome.accounts,
    )
    if previous is not None:
        manifest = _together(previous, manifest)
    if plan.settings.has_rules:
        from tokenmill.preparation.stages.removed_record import write_record

        old = b"" if previous is None or not previous.removed else read(previous.removed.file)
        record = write_record(plan, previous, len(known_sources), old)
        manifest = replace(manifest, removed=record)
    manifest = replace(manifest, sources=tuple(sources), sources_file=None)
    if len(sources) > MOST_LISTED:
        manifest = list_in_file(manifest, out, plan.folder)
    write_tokenizer_and_card(out, manifest, state, _command(plan))
    if plan.destination is None:
        _sync_shards(out, outcome.splits)
    plan.workspace.keep(PUBLISHED, manifest.digest.encode())
    manifest.write(out)
    used = set(manifest.files())
    written = ("sources-*.jsonl", "removed-*.jsonl", "*/documents*.parquet")
    for path in itertools.chain.from_iterable(map(out.glob, written)):
        if path.relative_to(out).as_posix() not in used:  # of the manifest before this one
            path.unlink()
    return manifest


def list_in_file(manifest: Manifest, out: Path, folder: str) -> Manifest:
    """Write the list of many sources, and return the manifest with their folders instead."""
    data = b"".join(orjson.dumps(source.to_json()) + b"\n" for source in manifest.sources)
    name = f"{folder}sources-{xxhash.xxh3_64_hexdigest(data)}.jsonl"
    write_atomically(out / name, data)
    listed = FileEntry(name, len(data), xxhash.xxh3_128_hexdigest(data))
    return replace(manifest, sources=by_folder(manifest.sources), sources_file=listed)


def by_folder(sources: Sequence[SourceEntry]) -> tuple[SourceEntry, ...]:
    """Join neighbours in one folder; at the greatest depth that gives at most `MOST_LISTED`."""
    depth = max(source.name.count("/") for source in sources)
    while len(joined := _joined(sources, depth)) > MOST_LISTED and depth:
        depth -= 1
    return joined


def _joined(sources: Sequence[SourceEntry], depth: int) -> tuple[SourceEntry, ...]:
    def folder_of(source: SourceEntry) -> str:
        return "".join(f"{part}/" for part in source.name.split("/")[:-1][:depth]) or "./"

    joined = []
    for folder, group in itertools.groupby(sources, folder_of):
        files = list(group)
        num_bytes = sum(file.num_bytes for file in files)
        num_documents = sum(file.num_documents for file in files)
        together = SourceEntry(folder, num_bytes, num_documents, len(files))
        joined.append(together if len(files) > 1 else files[0])
    return tuple(joined)


def _sync_shards(out: Path, splits: Mapping[str, SplitEntry]) -> None:
    """Sync all shards, many at once: one after the other would take several times as long."""
    shards = (shard for split in splits.values() for shard in split.shards)
    paths = [out / file.file for shard in shards for file in shard.files]
    if len(paths) <= _FEW:
        for path in paths:
            _sync(path)
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_SYNCED_AT_ONCE) as threads:
            for _ in threads.map(_sync, paths):
                pass
    for name in splits:
        sync_folder(out / name)


def _sync(path: Path) -> None:
    """Sync a file. One that does not reach the disk is removed, for the next run to make again:
    asked a second time, the kernel would say that all is well."""
    try:
        sync_file(path)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _together(before: Manifest, added: Manifest) -> Manifest:
    """The dataset that was there with the new shards and counts after its own."""
    splits = dict(before.splits)
    for name, split in added.splits.items():
        splits[name] = SplitEntry.of(
            (*splits[name].shards, *split.shards) if name in splits else split.shards,
            split.facts,
        )
    accounts = _accounts_of(before, added.accounts)
    added_up = {
        name: dict(Counter(accounts[name]) + Counter(value))
        if isinstance(value, dict)
        else accounts[name] + value
        for name, value in added.accounts.items()
        if name != TEST_SETS
    }
    if TEST_SETS in added.accounts:
        from tokenmill.preparation.stages.contamination import joined_reports

        added_up[TEST_SETS] = joined_reports(accounts[TEST_SETS], added.accounts[TEST_SETS])
    return replace(
        before,
        tokenizer=added.tokenizer,  # the same one; `convert` may have stored it in another way
        splits=splits,
        settings={
            **before.settings,
            "added": [*before.settings.get("added", ()), dict(added.settings)],
        },
        accounts=added_up,
    )


def _accounts_of(before: Manifest, added: Mapping[str, Any]) -> dict[str, Any]:
    """The accounts of a dataset. What was not prepared but converted has none: it was written."""
    nothing = {name: type(value)() for name, value in added.items()}
    if before.accounts:
        return {**nothing, **before.accounts}
    documents = sum(split.num_documents for split in before.splits.values())
    tokens = sum(split.num_tokens for split in before.splits.values())
    counts = {"documents_in": documents, "documents_written": documents, "tokens_written": tokens}
    return {**nothing, **counts}


def _command(plan: Plan) -> str:
    """The command that makes this dataset again, with the settings that are not the usual ones."""
    held_out = plan.held_out_splits
    usual = Settings(val_fraction=0.0 if held_out else USUAL_FRACTION).to_json(for_manifest=True)
    flags = [
        f"--{name}" if value is True else f"--{name} {_shell_word(_flag_text(value))}"
        for name, value in plan.settings.to_json(for_manifest=True).items()
        if value != usual.get(name)
    ]
    for split in held_out:
        name = "" if split == "val" else split.removeprefix("val_") + "="
        flags.append(f"--val_input {name}{' '.join(_input_words(plan, split))}")
    return " ".join(["tokenmill prepare", *_input_words(plan, None), "-o OUT", *flags])


def _flag_text(value: Any) -> str:
    return orjson.dumps(value).decode() if isinstance(value, dict) else str(value)


def _input_words(plan: Plan, split: str | None) -> list[str]:
    """The inputs of a split as they are typed; at most eight."""
    sources = [source for source in plan.sources if source.split == split]
    # A source is given by the name of its file, never as a flag or as the name of a split.
    names = [urllib.parse.unquote_to_bytes(source.name) for source in sources[:8]]
    odd = re.compile(rb"-" if split is None else rb"-|\w*=")
    paths = [os.fsdecode(b"./" + name if odd.match(name) else name) for name in names]
    words = [
        "-" if plan.workspace.holds(source.path) else _shell_word(path)
        for source, path in zip(sources, paths, strict=False)
    ]
    if len(sources) > 8:
        words.append("...")
    return words


def _shell_word(text: str) -> str:
    """Quoted for a shell; what cannot be printed is spelt as bash, zsh and others understand it."""
    if text.isprintable():
        return shlex.quote(text)
    spelt = os.fsencode(text).decode("latin-1").encode("unicode_escape").decode()
    return "$'" + spelt.replace("'", "\\'") + "'"
