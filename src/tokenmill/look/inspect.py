"""What a dataset holds and how it was made: of any format, without reading its tokens.

Only `bytes_per_token` looks at tokens: a sample is decoded. Everything else is in headers, indices
and sizes.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tokenmill.base.human import one_line, plural
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import FormatError, TokenmillError
from tokenmill.formats.held_out import SPLITS
from tokenmill.hub.checked_files import origins
from tokenmill.look.token_sample import spread_ranges, text_size
from tokenmill.shards.manifest import FILE_NAME, Manifest

SAMPLE_PLACES = 16
SAMPLE_TOKENS = 4096  # at each place


@takes_keywords_of(open_dataset, but=("split",))
def open_splits(
    path: str | os.PathLike[str], *, held_out: bool = False, **open_options: Any
) -> dict[str, TokenDataset]:
    """Every split that the data has; data without splits is `all`, as `tokenmill.open` opens it.

    With `held_out` such data is cut into `train` and `val`, by the rule for what is held out.
    """
    # Every file is looked at: what fails fails here.
    whole = open_dataset(path, "all", **open_options)
    with suppress(FormatError):  # there are splits, but no train
        if not held_out and open_dataset(path, **open_options).split is None:
            return {"all": whole}
    splits = {}
    for name in (*SPLITS, *whole.named_splits):
        with suppress(FormatError):  # there is no such split
            splits[name] = open_dataset(path, name, **open_options)
    return splits or {"all": whole}


@takes_keywords_of(open_dataset, but=("split",))
def inspect(path: str | os.PathLike[str], **open_options: Any) -> dict[str, Any]:
    """All that is known, as JSON values; other keywords are those of `tokenmill.open`."""
    splits = open_splits(path, **open_options)
    data = next(iter(splits.values()))
    counts = [split.num_documents for split in splits.values()]
    known: dict[str, Any] = {
        "path": os.fspath(path),
        "format": data.format,
        "dtype": data.dtype.name,
        "tokens": sum(split.num_tokens for split in splits.values()),
        "documents": None if None in counts else sum(count or 0 for count in counts),
        "bytes": sum(_bytes(split) for split in splits.values()),
        "tokenizer": _tokenizer(data),
        "splits": {name: _split(split) for name, split in splits.items()},
        "bytes_per_token": _bytes_per_token(splits),
        "fingerprint": {name: split.fingerprint for name, split in splits.items()},
        "details": data.details,
        "fetched": origins(Path(path)),
    }
    if data.has_manifest:
        known["made"] = _made(Manifest.load(path))
    return known


def _split(data: TokenDataset) -> dict[str, Any]:
    return {
        "tokens": data.num_tokens,
        "documents": data.num_documents,
        "bytes": _bytes(data),
        "shards": len(data.shards),
        "tokens_per_shard": int(data.files.numbers("num_tokens").max(initial=0)),
        "first_file": data.shards[0].file if data.shards else None,
        "last_file": data.shards[-1].file if data.shards else None,
        "part_of_a_file": any(file.partial for file in data.files.kinds()),
    }


def _bytes(data: TokenDataset) -> int:
    return data.num_tokens * data.dtype.itemsize


def _tokenizer(data: TokenDataset) -> dict[str, Any] | None:
    """Its name and numbers, where the data or the caller says which it is."""
    named: dict[str, Any] = {}
    if data.vocab_size is not None:
        named["vocab_size"] = data.vocab_size
    if data.end_of_text_id is not None:
        named["end_of_text_id"] = data.end_of_text_id
        named["end_of_text_comes"] = data.end_of_text_comes
    if data.begin_token_id is not None:
        named["begin_token_id"] = data.begin_token_id
    try:
        tokenizer = data.tokenizer
    except (TokenmillError, ImportError) as error:
        # Not installed, or changed: the ids are still what they are.
        return named | {"name": data.details.get("tokenizer"), "error": str(error)}
    if tokenizer is not None:
        named |= {"name": tokenizer.name, "fingerprint": tokenizer.fingerprint}
    return named or None


def _bytes_per_token(splits: Mapping[str, TokenDataset]) -> float | None:
    """Bytes of text that a token stands for, from samples spread over the largest split."""
    data = max(splits.values(), key=lambda split: split.num_tokens)
    try:
        if data.tokenizer is None or not data.num_tokens:
            return None
        ranges = spread_ranges(SAMPLE_PLACES, SAMPLE_TOKENS, 0, data.num_tokens)
        sizes = [text_size(data, start, stop, data.tokenizer) for start, stop in ranges]
    except (TokenmillError, ValueError, ImportError):
        return None
    num_bytes, num_tokens = map(sum, zip(*sizes, strict=True))
    return round(num_bytes / num_tokens, 3) if num_tokens else None


def _made(manifest: Manifest) -> dict[str, Any]:
    sources = manifest.sources
    return {
        "settings": dict(manifest.settings),
        "accounts": dict(manifest.accounts),
        "sources": sum(source.num_files or 1 for source in sources),
        "source_bytes": sum(source.num_bytes for source in sources),
        "source_documents": sum(source.num_documents for source in sources),
        "first_sources": [source.name for source in sources[:5]],
        "manifest": FILE_NAME,
    }


def lines(known: Mapping[str, Any]) -> list[str]:
    """What `inspect` found, as lines for people."""
    documents = known["documents"]
    rows = [
        ("path", one_line(known["path"])),
        ("format", known["format"]),
        ("dtype", known["dtype"]),
        ("tokens", f"{known['tokens']:,}"),
        ("documents", "not counted (no index)" if documents is None else f"{documents:,}"),
        ("tokenizer", _tokenizer_line(known["tokenizer"])),
    ]
    if error := (known["tokenizer"] or {}).get("error"):
        rows.append(("tokenizer", one_line(f"cannot be loaded: {error}".partition("\n\n")[0])))
    if known["bytes_per_token"] is not None:
        rows.append(("text", f"{known['bytes_per_token']:.2f} bytes a token, from samples"))
    rows += [("split", line) for line in _split_lines(known["splits"])]
    for key, value in known["details"].items():
        if key not in ("tokenizer", "splits"):  # said above
            rows.append((key.replace("_", " "), one_line(str(value))))
    for origin in known["fetched"]:
        rows.append(("fetched", one_line("{repo} at {revision}, commit {commit}".format(**origin))))
    rows += _made_lines(known.get("made"))
    width = max(len(name) for name, _ in rows)
    names = ["", *(name for name, _ in rows)]  # each is printed where it differs from the last
    return [
        f"{'' if name == previous else name:<{width}}  {value}"
        for previous, (name, value) in zip(names, rows, strict=False)
    ]


def _tokenizer_line(tokenizer: Mapping[str, Any] | None) -> str:
    if tokenizer is None:
        return "not named by the files"
    parts = [one_line(str(tokenizer.get("name") or "not named by the files"))]
    if "vocab_size" in tokenizer:
        parts.append(f"{tokenizer['vocab_size']:,} ids")
    if "end_of_text_id" in tokenizer:
        where = tokenizer["end_of_text_comes"]
        parts.append(f"end-of-text {tokenizer['end_of_text_id']} {where} each document")
    if "begin_token_id" in tokenizer:
        parts.append(f"begin token {tokenizer['begin_token_id']} before each document")
    if "fingerprint" in tokenizer:
        parts.append(f"fingerprint {tokenizer['fingerprint'][:12]}")
    return ", ".join(parts)


def _split_lines(splits: Mapping[str, Mapping[str, Any]]) -> list[str]:
    width = max(len(name) for name in splits)
    shown = []
    for name, split in splits.items():
        count = split["documents"]
        documents = "" if count is None else f"{plural(count, 'document')}, "
        size = f"{split['bytes']:,} bytes in {plural(split['shards'], 'shard')}"
        part = " (part of a file)" if split["part_of_a_file"] else ""
        tokens = plural(split["tokens"], "token")
        shown.append(f"{name:<{width}}  {tokens}, {documents}{size}{part}")
    return shown


def shown_setting(value: object) -> str:
    """A setting or an account on one line; files by split are counted."""
    if isinstance(value, dict):
        counts = (
            plural(len(of), "file") if isinstance(of, list) else one_line(str(of))
            for of in value.values()
        )
        parts = [f"{one_line(str(n))}: {of}" for n, of in zip(value, counts, strict=True)]
        return ", ".join(parts) or "none"
    return one_line(str(value))


def _made_lines(made: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if made is None:
        return []
    count = made["sources"]
    names = ", ".join(one_line(name) for name in made["first_sources"])
    more = f" and {count - 5:,} more" if count > 5 else ""
    if any(name.endswith("/") for name in made["first_sources"]):
        more = f", {count:,} files in all"
    rows = [("made from", f"{names}{more}: {made['source_bytes']:,} bytes")] if count else []
    rows += [("made with", f"{k}={shown_setting(v)}") for k, v in made["settings"].items()]
    return rows + [("accounts", f"{k}: {shown_setting(v)}") for k, v in made["accounts"].items()]
