"""The dataset that is in the output already: what it is made of, and what may be added to it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import orjson
import xxhash

from tokenmill.base.human import plural
from tokenmill.errors import (
    CorruptShardError,
    FormatError,
    SettingsMismatchError,
    TokenizerMismatchError,
)
from tokenmill.preparation.planning.plan import (
    Plan,
    list_differences,
    load_tokenizer,
    other_settings,
    read_plan,
)
from tokenmill.preparation.planning.settings import CHAT_FIELDS, Settings, list_other_settings
from tokenmill.preparation.stages.accounts import Summary
from tokenmill.preparation.workspace.target import Target
from tokenmill.preparation.workspace.workspace import PUBLISHED
from tokenmill.shards.manifest import FILE_NAME, FileEntry, Manifest, SourceEntry
from tokenmill.text.inputs.open_input import Source
from tokenmill.tokens.load_tokenizer import check_stated, from_bytes
from tokenmill.tokens.tokenizer import Tokenizer

_FIXED = ("tokenizer", "end_of_text", "begin_token", "token_pattern", "dtype")
_MUST_BE_EQUAL = ("begin_token", "dtype", "tokens_per_shard", "val_fraction", "facts", "keep")


def find_done(target: Target, wanted: Settings, sources: list[Source]) -> Summary | None:
    """Return the outcome if the very same was finished before; refuse what is something else."""
    found = target.found
    if found is None:
        return None
    work = target.workspace
    # True if a run was killed after it wrote the manifest, and before it cleaned up.
    was_published_here = work.has(PUBLISHED) and work.read(PUBLISHED).decode() == found.digest
    plan = read_plan(target.workspace) if was_published_here else None
    is_same = plan is not None and not list_differences(wanted, sources, plan)
    if was_published_here and not is_same:
        target.workspace.clear()
    if not is_same and not target.append:
        _refuse_differences(target, found, wanted, sources)
    _refuse_damaged(target, found)
    if target.append and not is_same:
        if len(_known_inputs(all_sources(target), sources)) < len(sources):
            return None
        inputs = "the input is" if len(sources) == 1 else f"all {len(sources)} inputs are"
        raise SettingsMismatchError(
            f"{inputs} in {target.name} already, by name and size (such as {sources[0].name!r})",
            hint="nothing was added; `tokenmill inspect` lists what the dataset is made of; a "
            "file that only happens to have the same name and size can be added under another "
            "name: rename it",
        )
    if is_same:
        target.clear_up()
    done = Summary.of(target.name, found, ["it was complete already"])
    done.already_there = True
    return done


def _refuse_differences(
    target: Target, found: Manifest, wanted: Settings, sources: Sequence[Source]
) -> None:
    """Refuse other settings or inputs; a file is known by name and size, and by its time."""
    lines = list_other_settings(recorded_settings(found), wanted.to_json(for_manifest=True))
    before = {(source.name, source.num_bytes) for source in all_sources(target)}
    now = {(source.name, source.size) for source in sources}
    lines += [f"input {name}   {size:,} bytes is new" for name, size in sorted(now - before)]
    lines += [f"input {name}   {size:,} bytes is gone" for name, size in sorted(before - now)]
    splits = {name: split for split, names in recorded_held_out(found).items() for name in names}
    finished = target.finished_at()
    for source in sources:
        if source.split != (split := splits.get(source.name)):
            lines.append(f"input {source.name}   is held out for {split} -> {source.split}")
        if source.changed_after(finished):
            lines.append(f"input {source.name}   changed after the dataset was made")
    if lines:
        hint = "use another folder; or append=True adds to it, overwrite=True replaces it"
        raise other_settings(f"{target.name} holds a dataset", lines, hint)


def _refuse_damaged(target: Target, found: Manifest) -> None:
    """Raise if files are missing or not of their size; nothing is read."""
    in_shards = [file for shard in found.shards for file in shard.files]
    files = [*found.files_beside_shards, *in_shards]
    damaged = []
    for file in files:
        size = target.size_of(file.file)
        if size is None:
            damaged.append(f"{file.file}   is missing")
        elif size != file.num_bytes:
            damaged.append(f"{file.file}   has {size:,} bytes, not {file.num_bytes:,}")
    if not damaged:
        return
    shown = damaged[:5] + ([f"and {len(damaged) - 5:,} more"] if len(damaged) > 5 else [])
    raise FormatError(
        f"the dataset {target.name} is damaged: {len(damaged):,} of {len(files):,} files do "
        "not match its manifest\n" + "\n".join(f"       {line}" for line in shown),
        hint="pass overwrite=True to make it again, or restore the files; "
        f"`tokenmill verify {target.name}` says more",
    )


def _known_inputs(recorded: Sequence[SourceEntry], sources: Sequence[Source]) -> list[str]:
    """Return the names of sources that seem to be in the dataset, by name and size."""
    known = {(source.name, source.num_bytes) for source in recorded}
    return [source.name for source in sources if (source.name, source.size) in known]


def notes_on_known_inputs(recorded: Sequence[SourceEntry], plan: Plan) -> list[str]:
    """Return a note if some inputs seem to be in the dataset that is added to."""
    known = _known_inputs(recorded, plan.sources)
    if not known:
        return []
    dedup = plan.settings.dedup
    became = f"{dedup} that it holds are dropped"
    if dedup == "none":
        became = "they were added once more"
    return [
        f"{len(known):,} of {len(plan.sources):,} inputs seem to be in the dataset already, by "
        f"name and size (such as {known[0]!r}): {became}"
    ]


def settings_for(target: Target, given: dict[str, Any]) -> Settings:
    """Return the settings asked for; the others are as in the dataset that is added to."""
    found = target.previous
    if found is None:
        settings = Settings(**given)
        return settings.with_template() if settings.chat else settings
    if found.tokenizer.state is None:
        raise TokenizerMismatchError(
            f"{target.name} names no tokenizer: no text can be added to it; use another folder"
        )
    theirs = recorded_settings(found)
    must_be_equal = [*_MUST_BE_EQUAL, *(CHAT_FIELDS if theirs.get("chat") else ())]
    if any(split.facts for split in found.splits.values()):
        if not {"facts", "keep"} & theirs.keys():
            must_be_equal.remove("keep")  # converted: the stage `facts` compares the names
        theirs.setdefault("facts", True)
    for name in must_be_equal:
        must_be = found.dtype if name == "dtype" else theirs.get(name)
        must_be = bool(must_be) if name == "facts" else must_be
        if name in given and given[name] != must_be:
            raise SettingsMismatchError(
                f"{target.name} was made with {name} {must_be!r:.80}; what is added to it cannot "
                f"have {given[name]!r:.80}",
                hint=f"leave {name} out, or prepare into another folder",
            )
    settings = Settings(**{**theirs, **{k: v for k, v in given.items() if k not in _FIXED}})
    columns = {column.name: column.bits for column in found.shards[0].columns or ()}
    if columns != settings.columns:
        raise SettingsMismatchError(
            f"{target.name} has the columns {_listed(columns)}, and what is added to it would have "
            f"{_listed(settings.columns)}: every token of a dataset has all",
            hint="prepare into another folder, and train on a Mixture of both",
        )
    return settings


def _listed(columns: Mapping[str, int]) -> str:
    """Name columns with their bits per token."""
    return ", ".join(f"{name} ({plural(bits, 'bit')})" for name, bits in columns.items()) or "none"


def tokenizer_for(target: Target, settings: Settings, given: dict[str, Any]) -> Tokenizer | None:
    """Return the tokenizer asked for, or of the dataset; None if it is yet to be learned."""
    found = target.previous
    if found is None:
        return load_tokenizer(settings)
    record = found.tokenizer
    assert record.state is not None  # `settings_for` has refused it
    file = f"{target.name}/{record.state.file}"
    stored = from_bytes(_read_checked(target, record.state), file)
    check_stated(
        stored,
        file,
        vocab_size=record.vocab_size,
        end_of_text_id=record.end_of_text_id,
        fingerprint=record.fingerprint,
    )
    asked = Settings(**{**given, "begin_token": recorded_settings(found).get("begin_token")})
    if "tokenizer" in given and not asked.tokenizer == record.name == "chars":
        wanted = load_tokenizer(asked)
        if wanted is None or wanted.fingerprint != stored.fingerprint:
            raise TokenizerMismatchError(
                f"{target.name} was made with the tokenizer {record.name!r} (fingerprint "
                f"{stored.fingerprint}), not with {asked.tokenizer!r}",
                hint="leave tokenizer out, or prepare into another folder",
            )
    return stored


def recorded_settings(manifest: Manifest) -> dict[str, Any]:
    """Return the settings that a dataset was made with."""
    names = {field.name for field in fields(Settings)}
    settings = {name: value for name, value in manifest.settings.items() if name in names}
    if manifest.tokenizer.begin_token_id is not None:  # also of a dataset that was converted
        settings.setdefault("begin_token", str(manifest.tokenizer.begin_token_id))
    return settings


def recorded_held_out(manifest: Manifest) -> dict[str, list[str]]:
    """Return the files of each validation set made from files, at first or by an addition."""
    held_out = defaultdict[str, list[str]](list)
    for run in [manifest.settings, *manifest.settings.get("added", ())]:
        try:
            for split, files in run.get("val_input", {}).items():
                held_out[split] += [str(file) for file in files]
        except (AttributeError, TypeError):
            raise FormatError(
                f"{FILE_NAME}: settings.val_input is not a list of files per split"
            ) from None
    return dict(held_out)


def _read_checked(target: Target, file: FileEntry) -> bytes:
    data = target.read_file(file.file)
    if (digest := xxhash.xxh3_128_hexdigest(data)) != file.xxh3_128:
        raise CorruptShardError(
            f"{file.file} has the hash {digest}; its manifest promises {file.xxh3_128} (xxh3-128)",
            hint="it was changed or damaged; fetch it again, or pass overwrite=True",
        )
    return data


def all_sources(target: Target) -> Sequence[SourceEntry]:
    """Return every input file of the dataset."""
    assert target.found is not None
    if (file := target.found.sources_file) is None:
        return target.found.sources
    try:
        lines = map(orjson.loads, _read_checked(target, file).splitlines())
        return [SourceEntry(line["name"], line["bytes"], line["documents"]) for line in lines]
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{file.file} is not a list of sources: {error}") from None
