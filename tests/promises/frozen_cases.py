"""What tokenmill gives today, case by case: the batches of an order, and the tokens of a dataset.

    python tests/promises/frozen_cases.py --write          # writes frozen/*.json again
    python tests/promises/frozen_cases.py --write ban      # only cases with this in their name

Each case is a function that makes something with the public interface and returns what a user sees
of it. Its hash is in `frozen/batches.json` or `frozen/datasets.json`, and test_frozen.py compares.

A hash of batches that changes: runs that were stopped resume with other rows than they would have
had, or the same seed trains on other data. A hash of datasets that changes: the same text and the
same settings give other tokens, documents or splits, so a dataset cannot be made again. Both may
only be done on purpose, with a line in the changelog.

What is not frozen: fingerprints, manifests, messages, names of files.
"""

import bz2
import contextlib
import csv
import gzip
import hashlib
import io
import json
import lzma
import os
import random
import shutil
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import flat
import numpy as np

import tokenmill
from tokenmill import Mixture
from tokenmill.augment import DropTokens, FillInTheMiddle, MaskTokens, ReplaceTokens
from tokenmill.batches import BatchForm
from tokenmill.edits import Add, Ban, Cap, Reweight, Skip, edit_state
from tokenmill.order.blocks import Blocks

TESTS = Path(__file__).parents[1]
FROZEN = Path(__file__).with_name("frozen")
Parts = Iterable[Any]


# The public interface, in one place: if a name or a keyword changes, it changes here.


def prepare(inputs, out, *, clean, dedup, **settings):
    """A dataset from texts; cleaning and dropping what is repeated are always said."""
    flat.prepare(inputs, out, clean=clean, dedup=dedup, workers=1, **settings)
    return out


def append(inputs, out, **settings):
    """More documents in a dataset, with the settings that it has."""
    flat.prepare(inputs, out, append=True, workers=1, **settings)
    return out


def retokenize(source, out, **settings):
    flat.retokenize(source, out, workers=1, **settings)
    return out


def pretokenize(path, **settings):
    """The array beside a text."""
    tokenmill.pretokenize(path, **settings)
    return np.load(path.with_suffix(".npy"))


def convert(source, out, **options):
    tokenmill.convert(source, out, **options)
    return out


def train_tokenizer(inputs, out, *, clean, dedup, **settings):
    flat.train_tokenizer(inputs, out, clean=clean, dedup=dedup, workers=1, **settings)
    return out


def open_data(path, split=None, **options):
    return tokenmill.open(path, split, **options)


def array_data(ids, **options):
    return tokenmill.from_array(ids, **options)


def make_loader(data, *, batch_size=4, block_size=64, seed=42, **settings):
    names = ("dtype", "max_documents", "check_ids", "prefetch")
    form = {"prefetch": 0} | {name: settings.pop(name) for name in names if name in settings}
    settings["form"] = BatchForm(**form)
    return tokenmill.BatchLoader(
        data, batch_size=batch_size, block_size=block_size, seed=seed, **settings
    )


def resumed(loader, state, **options):
    """The loader, after a state that went through a file."""
    loader.load_state_dict(json.loads(json.dumps(state)), **options)
    return loader


def edited(loader, *edits, **options):
    loader.edit(*edits, **options)
    return loader


def take(loader, steps):
    """The next batches; fewer if the order ends."""
    return [batch for _, batch in zip(range(steps), loader, strict=False)]


def parts_of_batch(batch) -> Parts:
    """All that a training loop can take from a batch."""
    for name in (
        "inputs",
        "targets",
        "labels",
        "loss_mask",
        "document_ids",
        "positions",
        "cu_seqlens",
    ):
        value = getattr(batch, name)
        if value is not None:
            yield from (name, np.asarray(value))


def parts_of_data(data) -> Parts:
    """The tokens in order and where documents end."""
    yield from (str(data.dtype), data.tokens(0, len(data)).astype(np.int64))
    if data.knows_documents:
        yield np.asarray(data.document_ends(0, len(data)), np.int64)


def parts_of_splits(path, **options) -> Parts:
    """The same for each split of a dataset of ours."""
    for split in ("train", "val", *open_data(path, "all").named_splits):
        try:
            data = open_data(path, split, **options)
        except tokenmill.TokenmillError:
            continue  # there is no such split
        yield from (split, *parts_of_data(data))


def located(loader, steps, columns=(0, 17, 64)) -> Parts:
    """Where tokens of some steps come from; padding comes from nowhere."""
    for step in steps:
        for rank in range(loader.world_size):
            for row in range(loader.batch_size):
                for column in columns:
                    with contextlib.suppress(IndexError):
                        place = loader.locate(step, row, column, rank=rank)
                        yield plain(place._replace(file=""))


def visited(loader, documents, **options) -> Parts:
    """When some documents come."""
    return [plain(loader.when(document, **options)) for document in documents]


def used(loader, steps) -> Parts:
    """How often sources and shards were used before some steps."""
    for step in steps:
        for source in loader.usage(step):
            shards = [[shard.targets, shard.used] for shard in source.shards]
            yield plain([source.source, source.samples, round(source.epochs, 9), shards])


# Hashing


def plain(value) -> str:
    """A value as JSON text."""
    return json.dumps(value, default=lambda number: number.item())


def hash_of(parts: Parts) -> str:
    """The first 16 digits of a sha256 over texts, bytes and arrays with their type and shape."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.name}{part.shape}".encode())
            part = part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes()
        if isinstance(part, str):
            part = part.encode()
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:16]


def run_case(case: Callable[["Shelf"], Parts], shelf: "Shelf") -> str:
    """The hash of a case; nothing here must survive a power cut, so no disk is waited for."""
    with mock.patch("os.fsync"):
        return hash_of(case(shelf))


# What is shared by cases: texts, files, datasets, made once


class Shelf:
    """A folder in which each thing is made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._made, self._close = folder, {}, contextlib.ExitStack()

    def get(self, name: str, make: Callable[[Path], Any]) -> Any:
        if name not in self._made:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made[name] = make(path)
        return self._made[name]

    def new(self, name: str) -> Path:
        """A new, empty folder."""
        folder = self.folder / "new" / name.replace("/", "_").replace(" ", "_")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def store(self):
        """A server of S3, ended with the shelf."""

        def start(folder):
            from stores import servers

            server = servers.start("moto", folder)
            self._close.callback(server.process.wait)
            self._close.callback(server.process.kill)
            return server

        return self.get("moto", start)

    def close(self) -> None:
        self._close.close()


WORDS = """
the of and to in a is that for it as was with be by on not he his but at are this have from
tokenmill naïve café Straße übermäßig Ελλάδα кошка 水車 こんにちは 한국어 שלום 🌾 👩‍🌾
1984 3.14159 don't we'll I'M e-mail http://example.org/a?b=c foo_bar FooBar x+=1; <tag>
"""
WORDS = [*WORDS.split(), "", "\t"]
REPEATED = "This line stands in a great many of the documents, word for word."


def line_of(chance: random.Random, words: int | None = None) -> str:
    text = " ".join(chance.choices(WORDS, k=words or chance.randint(1, 14)))
    return unicodedata.normalize("NFD", text) if chance.random() < 0.1 else text


def text_of(chance: random.Random, lines: int | None = None) -> str:
    """Prose, code, blank and repeated lines, surplus blanks, other line ends, a long line."""
    made = []
    for _ in range(lines or chance.randint(1, 12)):
        kind = chance.randrange(12)
        made.append(
            {
                0: "",
                1: REPEATED,
                2: f"    def f{chance.randint(0, 3)}(x):\treturn x  ",
                3: line_of(chance) + "  \r",
                4: f"{line_of(chance)}\u00a0\u200b  {line_of(chance)}",
                5: line_of(chance, 90),
            }.get(kind, line_of(chance))
        )
        made += [""] * (3 if kind == 7 else 0)
    return "\n".join(made)


def texts_of(seed: int, count: int) -> list[str]:
    """Documents; some come twice, one is empty, one is a single letter."""
    chance = random.Random(seed)
    made = [text_of(chance) for _ in range(count)]
    return [*made, made[0], "", "a", made[count // 2]]


def write_rows(path: Path, texts: list[str], field: str = "text") -> Path:
    rows = ({"id": number, field: text, "n": None} for number, text in enumerate(texts))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def rows_file(shelf: Shelf, seed: int = 1, count: int = 60) -> Path:
    return shelf.get(f"rows{seed}-{count}.jsonl", lambda p: write_rows(p, texts_of(seed, count)))


def special_tokenizer(shelf: Shelf) -> Path:
    """A tokenizer.json of bytes with a begin token, sentinels and a mask token."""

    def make(path):
        from special_tokens import write_tokenizer

        return write_tokenizer(path)

    return shelf.get("special/tokenizer.json", make)


def our_dataset(shelf: Shelf, seed: int = 1, **settings) -> Path:
    """A prepared dataset of many shards."""
    given = {"tokenizer": str(special_tokenizer(shelf)), "tokens_per_shard": 1500, **settings}
    name = f"ours{seed}" + "".join(f"-{key}-{value}" for key, value in settings.items())
    return shelf.get(
        name.replace(":", "").replace("<", "").replace(">", ""),
        lambda path: prepare(
            rows_file(shelf, seed, 30), path, clean=True, dedup="none", val_fraction=0.35, **given
        ),
    )


END, PREFIX, MIDDLE, SUFFIX, MASK, BEGIN, SIZE = 700, 701, 702, 703, 704, 705, 710


def some_ids(seed: int, tokens: int, dtype="uint16") -> tuple[np.ndarray, np.ndarray]:
    """Ids of documents that end with END, and where they end; some have one token only."""
    chance, ids, ends = random.Random(seed), [], []
    while len(ids) < tokens:
        length = chance.choice((0, 1, 2, 5, 20, 40, 63, 64, 90, 200))
        ids += [chance.randrange(END) for _ in range(length)] + [END]
        ends.append(len(ids))
    return np.array(ids, dtype), np.array(ends)


def in_memory(shelf: Shelf, seed: int = 1, tokens: int = 3000, dtype="uint16") -> Any:
    return array_data(some_ids(seed, tokens, dtype)[0], end_of_text=END, vocab_size=SIZE)


def with_index(shelf: Shelf) -> Any:
    """In memory, with the ends of documents given and not found by an id."""
    ids, ends = some_ids(2, 3000)
    return array_data(ids, document_ends=ends, vocab_size=SIZE)


def in_raw_files(shelf: Shelf) -> Any:
    """Raw files of awkward lengths."""

    def make(folder):
        folder.mkdir()
        parts = np.split(some_ids(3, 3000)[0], [1, 500, 565, 1800, 1810])
        for number, part in enumerate(parts):
            part.tofile(folder / f"part_{number:03}.bin")
        return folder

    paths = sorted(shelf.get("raw", make).iterdir())
    return open_data(paths, "all", dtype="uint16", end_of_text=END)


def in_store(shelf: Shelf) -> Any:
    """A dataset of ours in a bucket; only while the variables of the store are set."""

    def upload(folder):
        address = shelf.store().make_bucket("frozen") + "/data"
        source = {"tokenizer": str(special_tokenizer(shelf)), "tokens_per_shard": 1500}
        prepare(
            rows_file(shelf, 1, 30),
            address,
            clean=True,
            dedup="none",
            val_fraction=0.35,
            work_dir=folder,
            **source,
        )
        return address

    return open_data(
        shelf.get("store-work", upload), "train", cache_dir=shelf.folder / "store-cache"
    )


@contextlib.contextmanager
def at_store(shelf: Shelf):
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AWS_", "GOOGLE_", "AZURE_", "STORAGE_EMULATOR"))
    }
    with mock.patch.dict(os.environ, {**kept, **shelf.store().variables()}, clear=True):
        yield


# The files of other projects in tests/data, and what must be said to open them.
FOREIGN: dict[str, dict[str, Any]] = {
    "datatrove": {},
    "datatrove_uint32": {},
    "dolma": {"dtype": "uint16"},
    "litdata": {},
    "litdata_tensor": {},
    "litpkds": {"end_of_text": 50256},
    "llmc": {},
    "llmc_uint32": {},
    "mds": {},
    "mds_bytes": {"dtype": "int64"},
    "mds_columns": {},
    "mds_rows": {},
    "mds_zstd": {},
    "megatron": {},
    "megatron_int32": {},
    "modalities": {"end_of_text": 50256},
    "nanogpt": {"dtype": "uint16", "end_of_text": 50256},
    "npy": {"end_of_text": 50256},
    "npy_rows": {},
}
WITHOUT_DOCUMENTS = {"mds_bytes", "mds_rows", "npy_rows"}


def foreign(shelf: Shelf, name: str, split: str | None = "all") -> Any:
    cache = {"cache_dir": shelf.folder / "foreign-cache"} if name == "mds_zstd" else {}
    return open_data(TESTS / "data" / name, split, **FOREIGN[name], **cache)


READERS: dict[str, Callable[[Shelf], Any]] = {
    "memory": in_memory,
    "index": with_index,
    "raw": in_raw_files,
    "shards": lambda shelf: open_data(our_dataset(shelf)),
    "val": lambda shelf: open_data(our_dataset(shelf), "val"),
    "all": lambda shelf: open_data(our_dataset(shelf), "all"),
    "pread": lambda shelf: open_data(our_dataset(shelf), backend="pread"),
    "part": lambda shelf: open_data(our_dataset(shelf)).part(1111, 4444),
    "zstd": lambda shelf: open_data(
        our_dataset(shelf, compress="zstd:3"), cache_dir=shelf.folder / "unpacked"
    ),
}

# The table of cases

BATCHES: dict[str, Callable[[Shelf], Parts]] = {}
DATASETS: dict[str, Callable[[Shelf], Parts]] = {}
TABLES = {"batches": BATCHES, "datasets": DATASETS}


def add_case(table, name, function, *given, **named):
    assert name not in table, name
    table[name] = partial(function, *given, **named) if given or named else function


def batches_of(read, shelf, *, world_size=1, steps=30, edits=(), at=None, **settings) -> Parts:
    """Steps of all ranks, of more than one epoch."""
    data = read(shelf)
    for rank in range(world_size):
        loader = make_loader(data, rank=rank, world_size=world_size, **settings)
        if edits:
            edited(loader, *edits, at=at)
        for batch in take(loader, steps):
            yield from parts_of_batch(batch)


def freeze_batches(name, read, **settings):
    add_case(BATCHES, name, partial(batches_of, read, **settings))


ORDERS = {
    "shuffle": "shuffle",
    "sequential": "sequential",
    "random": "random",
    "blocks": "blocks",
    "blocks(3, 2)": Blocks(3, 2),
}
ROWS = ("windows", "packed", "documents")
ROW_ORDERS = [
    *(("windows", order) for order in ORDERS),
    *((rows, order) for rows in ("packed", "documents") for order in ("shuffle", "sequential")),
]

for reader, read in READERS.items():
    for rows, order in ROW_ORDERS:
        if reader in ("val", "all", "pread") and order != "shuffle":
            continue  # the same files as those of `shards`
        freeze_batches(
            f"{rows} {order} from {reader}",
            read,
            rows=rows,
            order=ORDERS[order],
            documents=True,
            batch_size=4 if reader in ("memory", "index", "raw") else 8,
        )
for order in ORDERS:
    freeze_batches(f"windows {order} without documents", in_memory, order=ORDERS[order])
    for world in (2, 3):
        freeze_batches(
            f"windows {order} on {world} ranks", in_memory, order=ORDERS[order], world_size=world
        )
    if order == "random":
        continue  # no boundary of windows is fixed, so none can move
    freeze_batches(f"windows {order} with phase", in_memory, order=ORDERS[order], phase=True)
    freeze_batches(
        f"windows {order} with phase on 2 ranks, shards",
        READERS["shards"],
        order=ORDERS[order],
        world_size=2,
        phase=True,
        documents=True,
        batch_size=3,
    )
for rows in ("packed", "documents"):
    for order in ("shuffle", "sequential"):
        for world in (2, 3):
            freeze_batches(
                f"{rows} {order} on {world} ranks",
                in_memory,
                rows=rows,
                order=order,
                world_size=world,
            )
        freeze_batches(
            f"{rows} {order} with a begin token",
            in_memory,
            rows=rows,
            order=order,
            begin_token=BEGIN,
        )
        freeze_batches(
            f"{rows} {order} with a begin token, shards, 2 ranks",
            READERS["shards"],
            rows=rows,
            order=order,
            begin_token=257,
            world_size=2,
        )
for rows in ROWS:
    for most in (16, 64):
        freeze_batches(
            f"{rows} of at most {most} documents",
            in_memory,
            rows=rows,
            documents=True,
            max_documents=most,
        )
    for dtype in ("uint16", "int32", "uint32", "int64"):
        freeze_batches(f"{rows} as {dtype}", in_memory, rows=rows, dtype=dtype, documents=True)
    for width in ("uint32", "int32", "int64"):
        freeze_batches(
            f"{rows} of {width} ids",
            partial(in_memory, dtype=width),
            rows=rows,
            documents=True,
        )
    for seed in (0, 1, 2**40 + 7):
        freeze_batches(f"{rows} with the seed {seed}", in_memory, rows=rows, seed=seed)
    for block in (1, 7, 256):
        freeze_batches(
            f"{rows} of {block} tokens", in_memory, rows=rows, block_size=block, documents=True
        )
    freeze_batches(f"{rows} made ahead", in_memory, rows=rows, prefetch=2)

for name in FOREIGN:
    read = partial(foreign, name=name)
    known = name not in WITHOUT_DOCUMENTS
    for rows, order in [
        *(("windows", order) for order in ("shuffle", "sequential", "blocks", "random")),
        *([("packed", "shuffle"), ("documents", "sequential")] if known else ()),
    ]:
        freeze_batches(
            f"{rows} {order} from {name}",
            read,
            rows=rows,
            order=order,
            documents=known,
            block_size=32,
            steps=20,
        )


def batches_of_store(shelf, **settings) -> Parts:
    with at_store(shelf):
        return list(batches_of(in_store, shelf, documents=True, batch_size=8, **settings))


for rows, order in (("windows", "shuffle"), ("windows", "blocks"), ("packed", "shuffle")):
    add_case(
        BATCHES, f"{rows} {order} from a store", partial(batches_of_store, rows=rows, order=order)
    )

# Mixtures


def two(shelf) -> Mixture:
    sources = {"a": in_memory(shelf, 1, 2000), "b": in_memory(shelf, 2, 700)}
    return Mixture(sources, weights={"a": 0.7, "b": 0.3})


def three(shelf) -> Mixture:
    sources = {name: in_memory(shelf, seed, 500 * seed) for seed, name in enumerate("xyz", 1)}
    return Mixture(sources, weights={"x": 1, "y": 3, "z": 2})


def staged(shelf) -> Mixture:
    sources = {name: in_memory(shelf, seed, 500 * seed) for seed, name in enumerate("xyz", 1)}
    schedule = [
        (0, {"x": 1, "y": 0, "z": 1}),
        (5, {"x": 1, "y": 5, "z": 0}),
        (13, {"x": 0.1, "y": 0.2, "z": 0.7}),
    ]
    return Mixture(sources, schedule=schedule, samples_per_step=4)


def of_files(shelf) -> Mixture:
    sources = {
        "one": open_data(our_dataset(shelf)),
        "two": open_data(our_dataset(shelf, 2)),
        "small": open_data(our_dataset(shelf, 2), "val"),
    }
    return Mixture(sources, weights={"one": 0.5, "two": 0.4, "small": 0.1})


MIXTURES = {"two": two, "three": three, "staged": staged, "files": of_files}
for mixture, read in MIXTURES.items():
    for rows, order in ROW_ORDERS:
        freeze_batches(
            f"mixture {mixture}: {rows} {order}",
            read,
            rows=rows,
            order=ORDERS[order],
            documents=True,
            batch_size=10 if mixture == "files" else 4,
        )
    for world in (2, 3):
        freeze_batches(f"mixture {mixture} on {world} ranks", read, world_size=world)
    freeze_batches(f"mixture {mixture} with phase", read, phase=True)


# Passes of some epochs: where they end, and what the next one begins with


def passes_of(read, shelf, *, world_size=1, **settings) -> Parts:
    data = read(shelf)
    for rank in range(world_size):
        loader = make_loader(data, rank=rank, world_size=world_size, **settings)
        for _ in range(2):
            yield plain(len(loader))
            for batch in loader:
                yield from parts_of_batch(batch)


for rows in ROWS:
    for epochs in (1, 3):
        add_case(
            BATCHES,
            f"passes of {epochs} epochs: {rows}",
            partial(passes_of, in_memory, rows=rows, epochs=epochs),
        )
    add_case(
        BATCHES,
        f"passes on 3 ranks: {rows}",
        partial(passes_of, in_memory, rows=rows, epochs=1, world_size=3),
    )
    add_case(
        BATCHES,
        f"passes of a mixture: {rows}",
        partial(passes_of, three, rows=rows, epochs={"x": 1, "z": 2}),
    )


# Resuming in the middle, on other ranks and with other batch sizes


def resumed_batches(read, shelf, *, first=7, edits=(), **settings) -> Parts:
    data = read(shelf)
    loader = make_loader(data, **settings)
    if edits:
        edited(loader, *edits, at=5)
    for batch in take(loader, first):
        yield from parts_of_batch(batch)
    state = loader.state_dict()
    added = {edit.name: edit.data for edit in edits if isinstance(edit, Add)}
    for rank in range(2):
        other = make_loader(data, rank=rank, world_size=2, **{**settings, "batch_size": 3})
        for batch in take(resumed(other, state, sources=added), 9):
            yield from parts_of_batch(batch)
    state = other.state_dict()
    last = resumed(make_loader(data, **{**settings, "batch_size": 5}), state, sources=added)
    for batch in take(last, 9):
        yield from parts_of_batch(batch)


RESUMED = {"memory": in_memory, "shards": READERS["shards"], "mixture": three, "staged": staged}
for source, read in RESUMED.items():
    for rows, order in ROW_ORDERS:
        add_case(
            BATCHES,
            f"resumed on other ranks: {rows} {order} of {source}",
            partial(
                resumed_batches,
                read,
                first=14 if source == "shards" else 7,
                batch_size=8 if source == "shards" else 4,
                rows=rows,
                order=ORDERS[order],
            ),
        )


# Augmentations


def shifted(rows):
    """Every token that may change becomes the next id; where a number says so, id 0."""
    moved = np.where(rows.fixed, rows.tokens, (rows.tokens + 1) % 256)
    zero = rows.random.chosen(0.2, rows.tokens.shape[1]) & ~rows.fixed
    return np.where(zero, 0, moved)


shifted.name, shifted.version = "shifted", 1
FIM = FillInTheMiddle(0.5, 0.5, prefix_id=PREFIX, middle_id=MIDDLE, suffix_id=SUFFIX)
AUGMENTS = {
    "FillInTheMiddle": [FIM],
    "FillInTheMiddle of all, suffix first": [
        FillInTheMiddle(1.0, 1.0, prefix_id=PREFIX, middle_id=MIDDLE, suffix_id=SUFFIX)
    ],
    "MaskTokens": [MaskTokens(0.15, mask_id=MASK)],
    "MaskTokens, none kept": [MaskTokens(0.4, mask_id=MASK, keep=0.0, random=0.5)],
    "ReplaceTokens": [ReplaceTokens(0.2)],
    "DropTokens": [DropTokens(0.1)],
    "an own function": [shifted],
    "all of them": [FIM, DropTokens(0.1), shifted, ReplaceTokens(0.1), MaskTokens(mask_id=MASK)],
}
for augmentation, augment in AUGMENTS.items():
    for rows in ROWS:
        freeze_batches(f"{augmentation}: {rows}", in_memory, rows=rows, augment=augment)
        freeze_batches(
            f"{augmentation}: {rows} with documents, 2 ranks",
            in_memory,
            rows=rows,
            augment=augment,
            documents=True,
            world_size=2,
        )
    freeze_batches(f"{augmentation}: mixture", three, augment=augment)
    freeze_batches(f"{augmentation}: random windows", in_memory, order="random", augment=augment)
    add_case(
        BATCHES,
        f"{augmentation}: resumed on other ranks",
        partial(resumed_batches, in_memory, augment=augment),
    )
for rows in ROWS:
    for each in (FillInTheMiddle(), MaskTokens()):
        freeze_batches(
            f"{each.name} with the ids of the tokenizer: {rows}",
            READERS["shards"],
            rows=rows,
            augment=[each],
        )
for rows in ("packed", "documents"):
    freeze_batches(
        f"all augmentations after a begin token: {rows}",
        in_memory,
        rows=rows,
        begin_token=BEGIN,
        augment=AUGMENTS["all of them"],
    )


# Edits

NEW = in_memory(None, 9, 900)
ALONE = {
    "skip of steps": [Skip(steps=(8, 12))],
    "skip of samples": [Skip(samples=(33, 71))],
    "ban of documents": [Ban(documents=[0, 3, 4, 5, 11])],
    "ban of tokens": [Ban(tokens=(200, 777))],
    "cap": [Cap({"data": 2})],
    "add": [Add("new", NEW, {"data": 0.6, "new": 0.4})],
    "add of a part": [Add("new", NEW, {"data": 1, "new": 1}, tokens=(100, 800))],
    "sequence": [
        Skip(samples=(40, 43)),
        Add("new", NEW, {"data": 2, "new": 1}),
        Cap({"new": 1}),
        Reweight({"data": 1, "new": 3}),
        Skip(samples=(80, 90)),
    ],
    "sequence with a ban": [
        Ban(documents=[1, 2, 7]),
        Skip(samples=(40, 43)),
        Add("new", NEW, {"data": 2, "new": 1}),
        Ban(tokens=(0, 300), source="new"),
        Cap({"new": 2}, then="end"),
    ],
}
MIXED = {
    "reweight": [Reweight({"x": 5, "y": 1, "z": 1})],
    "reweight to none": [Reweight({"x": 0, "y": 0.25, "z": 0.75})],
    "skip of steps": [Skip(steps=(8, 12))],
    "skip of samples": [Skip(samples=(33, 71))],
    "ban of documents": [Ban(documents=[0, 2, 3], source="y")],
    "ban of tokens": [Ban(tokens=(200, 777), source="z")],
    "cap": [Cap({"x": 1, "y": 3})],
    "cap that ends": [Cap({"z": 1}, then="end")],
    "add": [Add("new", NEW, {"x": 1, "y": 1, "z": 1, "new": 3})],
    "sequence": [
        Reweight({"x": 2, "y": 1, "z": 1}),
        Skip(samples=(50, 55)),
        Cap({"x": 3}),
        Add("new", NEW, {"x": 1, "y": 1, "z": 0, "new": 3}),
        Cap({"new": 1, "x": None}),
    ],
    "sequence with a ban": [
        Ban(documents=[0, 2], source="x"),
        Reweight({"x": 2, "y": 1, "z": 1}),
        Cap({"x": 3}),
        Ban(tokens=(10, 500), source="z"),
        Skip(samples=(50, 55)),
    ],
}
EDITED = {"one": (in_memory, ALONE), "mixture": (three, MIXED)}
for source, (read, scripts) in EDITED.items():
    for script, edits in scripts.items():
        for rows in ROWS:
            freeze_batches(
                f"edit {script}: {rows} of {source}", read, rows=rows, edits=edits, at=6, steps=40
            )
            add_case(
                BATCHES,
                f"edit {script}: resumed on other ranks, {rows} of {source}",
                partial(resumed_batches, read, rows=rows, edits=edits),
            )
        for order in ("sequential", "random", "blocks"):
            freeze_batches(
                f"edit {script}: windows {order} of {source}",
                read,
                order=order,
                edits=edits,
                at=6,
                documents=True,
            )
        freeze_batches(
            f"edit {script}: windows with phase on 2 ranks of {source}",
            read,
            phase=True,
            world_size=2,
            edits=edits,
            at=4,
        )
freeze_batches(
    "edit reweight: in the middle of stages",
    staged,
    edits=[Reweight({"x": 1, "y": 1, "z": 1})],
    at=9,
)
for rows in ROWS:
    for augmentation in ("all of them", "DropTokens", "FillInTheMiddle"):
        freeze_batches(
            f"edit ban of documents: {rows} with {augmentation}",
            in_memory,
            rows=rows,
            augment=AUGMENTS[augmentation],
            edits=ALONE["ban of documents"],
            at=2,
        )
        freeze_batches(
            f"edit skip of samples: {rows} with {augmentation}",
            in_memory,
            rows=rows,
            augment=AUGMENTS[augmentation],
            edits=ALONE["skip of samples"],
            at=2,
        )


def edits_of_a_state(read, shelf, *, edits, **settings) -> Parts:
    """Edits of a run that is not running."""
    data = read(shelf)
    loader = make_loader(data, **settings)
    take(loader, 6)
    state = edit_state(loader.state_dict(), *edits)
    for batch in take(resumed(make_loader(data, **settings), state), 20):
        yield from parts_of_batch(batch)


def ban_in_a_file(shelf) -> Parts:
    path = shelf.new("ban") / "forget.txt"
    path.write_text("0\n3\n4\n11\n")
    return edits_of_a_state(in_memory, shelf, edits=[Ban(documents=str(path))])


add_case(BATCHES, "edit ban of a file, in a state", ban_in_a_file)
for rows in ROWS:
    add_case(
        BATCHES,
        f"edit skip, in a state: {rows}",
        partial(edits_of_a_state, in_memory, rows=rows, edits=[Skip(samples=(33, 71))]),
    )
    add_case(
        BATCHES,
        f"edit reweight and cap, in a state: {rows}",
        partial(
            edits_of_a_state,
            three,
            rows=rows,
            edits=[Reweight({"x": 3, "y": 1, "z": 1}), Cap({"x": 3})],
        ),
    )


# Looking up, with and without edits


def looked_up(read, shelf, *, edits=(), sources=(None,), **settings) -> Parts:
    loader = make_loader(read(shelf), world_size=2, **settings)
    if edits:
        edited(loader, *edits, at=6)
    yield from located(loader, (0, 5, 6, 9, 17))
    for source in sources:
        yield from visited(loader, range(0, 12), source=source, epochs=range(3))
    yield from used(loader, (0, 3, 11, 30))


LOOKED_UP = {
    "memory": (in_memory, ALONE, (None,)),
    "shards": (READERS["shards"], {}, (None,)),
    "mixture": (three, MIXED, ("x", "y", "z")),
}
for source, (read, scripts, names) in LOOKED_UP.items():
    for rows, order in ROW_ORDERS:
        add_case(
            BATCHES,
            f"locate, when, usage: {rows} {order} of {source}",
            partial(looked_up, read, rows=rows, order=ORDERS[order], sources=names),
        )
    for script, edits in scripts.items():
        if "add" in script or script in ("sequence", "sequence with a ban"):
            names = tuple(name or "data" for name in names)
        for rows in ROWS:
            add_case(
                BATCHES,
                f"locate, when, usage after an edit {script}: {rows} of {source}",
                partial(looked_up, read, rows=rows, edits=edits, sources=names),
            )


# Other ways to the same rows


def at_any_step(read, shelf, **settings) -> Parts:
    loader = make_loader(read(shelf), **settings)
    for step in (19, 0, 7, 1000):
        yield from parts_of_batch(loader.batch(step))
    for _, batch in zip(range(5), loader.batches(3, 4), strict=False):
        yield from parts_of_batch(batch)
    windows = loader.windows(200)
    yield from (np.asarray(windows[number]) for number in (0, 5, 199, 60))
    yield plain([loader.epoch, loader.step])


def as_tensors(read, shelf, *, edits=(), world_size=1, **settings) -> Parts:
    from tokenmill.torch import TorchLoader

    for rank in range(world_size):
        loader = TorchLoader(
            read(shelf), batch_size=4, block_size=64, rank=rank, world_size=world_size, **settings
        )
        if edits:
            edited(loader, *edits)
        for batch in take(loader, 20):
            yield from parts_of_batch(batch)
            for named in (batch.as_dict(), batch.for_hugging_face()):
                for name, tensor in named.items():
                    yield from (name, np.asarray(tensor))


def as_torch_dataset(read, shelf, *, items, **settings) -> Parts:
    from tokenmill.torch import WindowsDataset

    data = WindowsDataset(read(shelf), block_size=64, items=items, **settings)
    for epoch in range(2):
        data.set_epoch(epoch)
        for number in range(len(data)):
            item = data[number]
            for tensor in item.values() if isinstance(item, dict) else item:
                yield np.asarray(tensor)


for rows in ROWS:
    for source, read in (("memory", in_memory), ("shards", READERS["shards"]), ("mixture", three)):
        add_case(BATCHES, f"any step: {rows} of {source}", partial(at_any_step, read, rows=rows))
        add_case(
            BATCHES,
            f"TorchLoader: {rows} of {source}",
            partial(as_tensors, read, rows=rows, documents=True, world_size=2),
        )
    for augmentation, augment in AUGMENTS.items():
        add_case(
            BATCHES,
            f"TorchLoader: {rows} with {augmentation}",
            partial(as_tensors, in_memory, rows=rows, augment=augment),
        )
    for script in ("skip of steps", "ban of documents", "add"):
        add_case(
            BATCHES,
            f"TorchLoader: {rows} after an edit {script}",
            partial(as_tensors, in_memory, rows=rows, edits=ALONE[script]),
        )


def as_torch_loader(read, shelf, **settings) -> Parts:
    """Two epochs of the loader for trainers, on two ranks."""
    from tokenmill.torch import TokenDataLoader

    for rank in range(2):
        loader = TokenDataLoader(
            read(shelf), batch_size=4, block_size=64, rank=rank, world_size=2, epochs=1, **settings
        )
        for _ in range(2):
            for item in loader:
                for tensor in item.values() if isinstance(item, dict) else item:
                    yield np.asarray(tensor)


for rows in ROWS:
    add_case(BATCHES, f"TokenDataLoader: {rows}", partial(as_torch_loader, in_memory, rows=rows))
for items in ("dict", "hugging_face"):
    add_case(BATCHES, f"TokenDataLoader: {items}", partial(as_torch_loader, in_memory, items=items))
for items in ("pair", "dict", "hugging_face", "window"):
    add_case(BATCHES, f"WindowsDataset: {items}", partial(as_torch_dataset, in_memory, items=items))


# Datasets


def prepared(inputs, shelf, *, name, clean=True, dedup="none", shards=False, **settings) -> Parts:
    """The splits of what is prepared from what `inputs` writes into a folder."""
    folder = shelf.new(name)
    given = inputs(folder)
    settings = {"tokenizer": "bytes", "val_fraction": 0.3, **settings}
    for key, value in settings.items():
        if callable(value):
            settings[key] = value(shelf if key == "tokenizer" else folder)
    out = prepare(given, folder / "out", clean=clean, dedup=dedup, **settings)
    yield from parts_of_splits(out)
    if shards:
        yield plain([shard.num_tokens for shard in open_data(out, "all").shards])


def freeze_dataset(name, inputs, **settings):
    add_case(DATASETS, name, partial(prepared, inputs, name=name, **settings))


def compressed(data: bytes, suffix: str) -> bytes:
    if suffix in (".zst", ".zstd"):
        zstd = __import__(
            "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd", fromlist=["*"]
        )
        return zstd.compress(data)
    return {
        ".gz": partial(gzip.compress, mtime=0),
        ".gzip": partial(gzip.compress, mtime=0),
        ".xz": lzma.compress,
        ".bz2": bz2.compress,
        "": bytes,
    }[suffix](data)


def as_text(seed: int, count: int) -> bytes:
    return "\n\n".join(texts_of(seed, count)).encode()


def as_csv(seed: int, count: int, delimiter: str = ",") -> bytes:
    out = io.StringIO(newline="")
    rows = csv.writer(out, delimiter=delimiter)
    rows.writerow(["id", "text", "other"])
    rows.writerows([number, text, "x"] for number, text in enumerate(texts_of(seed, count)))
    return out.getvalue().encode()


def as_jsonl(seed: int, count: int, field: str = "text") -> bytes:
    rows = ({field: text, "id": number} for number, text in enumerate(texts_of(seed, count)))
    return "".join(json.dumps(row, ensure_ascii=row["id"] % 2 == 0) + "\n" for row in rows).encode()


def as_parquet(seed: int, count: int, field: str = "text") -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    texts = texts_of(seed, count)
    table = pa.table({"id": list(range(len(texts))), field: texts})
    pq.write_table(table, out, row_group_size=17)
    return out.getvalue()


def a_file(name: str, data: bytes, folder: Path) -> Path:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def file_of(name: str, make: Callable[..., bytes], *given) -> Callable[[Path], Path]:
    """A function that writes one input."""
    suffix = Path(name).suffix if Path(name).suffix in PACKED else ""
    return lambda folder: a_file(name, compressed(make(*given), suffix), folder)


PACKED = (".gz", ".gzip", ".zst", ".zstd", ".xz", ".bz2")
KINDS = {
    "txt": (as_text, 3, 20),
    "md": (as_text, 4, 10),
    "py": (as_text, 5, 10),
    "tsv": (as_csv, 6, 20, "\t"),
    "unknown": (as_text, 7, 10),
    "jsonl": (as_jsonl, 3, 40),
    "ndjson": (as_jsonl, 4, 20),
    "json": (as_jsonl, 5, 20),
    "csv": (as_csv, 3, 40),
    "parquet": (as_parquet, 3, 40),
}
for kind, (make, *given) in KINDS.items():
    for clean in (True, False):
        cleaned = "cleaned" if clean else "as it is"
        freeze_dataset(f".{kind} {cleaned}", file_of(f"a.{kind}", make, *given), clean=clean)
    freeze_dataset(
        f".{kind} cleaned, without repeated lines, gpt2",
        file_of(f"a.{kind}", make, *given),
        dedup="lines",
        tokenizer="gpt2",
    )
for kind in ("txt", "jsonl", "csv", "parquet"):
    make, *given = KINDS[kind]
    for suffix in PACKED:
        freeze_dataset(f".{kind}{suffix}", file_of(f"a.{kind}{suffix}", make, *given), clean=False)

# Cleaning, repeated text and what is a document: each with each.
TEXT, JSONL = file_of("a.txt", as_text, 3, 30), file_of("a.jsonl", as_jsonl, 3, 50)
for clean in (True, False):
    for dedup in ("none", "lines", "documents"):
        named = f"{'cleaned' if clean else 'as it is'}, dedup {dedup}"
        rule = {"clean": clean, "dedup": dedup}
        for document_is in ("file", "line", "paragraph"):
            freeze_dataset(f".txt by {document_is}, {named}", TEXT, document_is=document_is, **rule)
        freeze_dataset(f".txt cut at a separator, {named}", TEXT, separator="word for word", **rule)
        freeze_dataset(f".jsonl {named}, gpt2", JSONL, tokenizer="gpt2", **rule)
        freeze_dataset(f".csv {named}", file_of("a.csv", as_csv, 3, 50), **rule)
        freeze_dataset(f".parquet {named}", file_of("a.parquet", as_parquet, 3, 50), **rule)
        freeze_dataset(f"small units, {named}", JSONL, unit_bytes=700, tokens_per_shard=900, **rule)


def many(folder: Path, count: int = 40) -> Path:
    """A folder of many small files of several kinds, some in folders, some not taken."""
    for number in range(count):
        kind = ("txt", "jsonl", "csv", "md", "py", "txt.gz")[number % 6]
        make = {"jsonl": as_jsonl, "csv": as_csv}.get(kind, as_text)
        place = f"{'sub/' * (number % 3)}{number:02}.{kind}"
        file_of(place, make, 100 + number, 2)(folder)
    a_file(".hidden.txt", b"hidden", folder)
    a_file("picture.png", b"\x89PNG\r\n", folder)
    a_file("empty.txt", b"", folder)
    a_file("blank.txt", b"\n \n\n", folder)
    return folder / "in"


def several(folder: Path) -> list[Path]:
    """Files in another order than that of their names."""
    many(folder, 12)
    return [folder / "in" / name for name in ("06.txt", "00.txt", "sub/01.jsonl", "sub/07.jsonl")]


for name, inputs in {
    "a folder of many files": many,
    "a glob": lambda folder: f"{many(folder)}/**/*.txt",
    "several files": several,
    "a folder and a file": lambda folder: [many(folder), awkward(folder / "other", "crlf")],
}.items():
    for dedup in ("none", "lines", "documents"):
        freeze_dataset(f"{name}, dedup {dedup}", inputs, dedup=dedup)
    freeze_dataset(f"{name}, as it is, gpt2", inputs, clean=False, tokenizer="gpt2")


def awkward(folder: Path, name: str) -> Path:
    data = {
        "bom": b"\xef\xbb\xbfHello\n\xef\xbb\xbfworld\n",
        "crlf": b"one\r\ntwo\rthree\n\r\n\r\n\r\nfour\x0bfive\x0csix\xc2\x85seven",
        "zeros": b"a\x00b\n\x00\x00\n\x1b[0m\n",
        "specials": b"<|endoftext|> and <s> and [MASK]\n<|endoftext|>",
        "one line": b"no newline at the end",
        "spaces": "  \t lead \u3000 wide\u2028line\u2029end \ufeff tail  \n\n\n\n\nx".encode(),
        "emoji": "👩‍👩‍👧‍👦🏳️‍🌈é e\u0301 ﬁ ½ Å Ⅷ 한 \u1112\u1161\u11ab\n".encode() * 9,
    }[name]
    return a_file("a.txt", data, folder)


for name in ("bom", "crlf", "zeros", "specials", "one line", "spaces", "emoji"):
    for clean in (True, False):
        for tokenizer in ("bytes", "gpt2", "chars"):
            freeze_dataset(
                f"awkward text, {name}, {'cleaned' if clean else 'as it is'}, {tokenizer}",
                partial(awkward, name=name),
                clean=clean,
                tokenizer=tokenizer,
                val_fraction=0.0,
            )


def from_standard_input(shelf) -> Parts:
    out = shelf.new("stdin") / "out"
    piped = io.TextIOWrapper(io.BytesIO(as_jsonl(8, 20)))
    with mock.patch("sys.stdin", piped):
        prepare(["-"], out, clean=True, dedup="none", tokenizer="bytes", val_fraction=0.1)
    return parts_of_splits(out)


add_case(DATASETS, "standard input", from_standard_input)


def huge(folder: Path, *, one_line: bool) -> Path:
    """One document that is larger than what is read, or encoded, at once."""
    chance = random.Random(77)
    lines = [line_of(chance, 40) for _ in range(60)]
    text = (" " if one_line else "\n").join(chance.choices(lines, k=9000))
    return a_file("huge.txt", text.encode(), folder)


for one_line in (True, False):
    shape = "in one line" if one_line else "of many lines"
    for tokenizer in ("bytes", "gpt2"):
        freeze_dataset(
            f"a huge document {shape}, {tokenizer}",
            partial(huge, one_line=one_line),
            tokenizer=tokenizer,
            val_fraction=0.0,
            unit_bytes=200_000,
            long_line=100_000,
            tokens_per_shard=500_000,
        )
    freeze_dataset(
        f"a huge document {shape} without repeated lines",
        partial(huge, one_line=one_line),
        dedup="lines",
        val_fraction=0.0,
        unit_bytes=200_000,
        long_line=100_000,
    )


# Settings


def ranks_file(shelf: Shelf) -> str:
    """The first thousand ranks of gpt2."""
    data = Path(tokenmill.__file__).parent / "tokens" / "data" / "gpt2.tiktoken"

    def make(path):
        path.write_bytes(b"\n".join(data.read_bytes().splitlines()[:1000]))
        return str(path)

    return shelf.get("ranks/small.tiktoken", make)


def trained(shelf: Shelf) -> str:
    """A tokenizer that was trained here."""
    return str(
        shelf.get(
            "trained",
            lambda path: train_tokenizer(
                rows_file(shelf), path, clean=True, dedup="none", vocab_size=400
            ),
        )
    )


def special(shelf: Shelf) -> str:
    return str(special_tokenizer(shelf))


for name, settings in {
    "tokenizer gpt2": {"tokenizer": "gpt2"},
    "tokenizer bytes": {"tokenizer": "bytes"},
    "tokenizer chars": {"tokenizer": "chars"},
    "tokenizer.json": {"tokenizer": special},
    "tokenizer trained here": {"tokenizer": trained},
    **{
        f"tiktoken file, {pattern}": {
            "tokenizer": ranks_file,
            "token_pattern": pattern,
            "end_of_text": "1000",
        }
        for pattern in ("gpt2", "cl100k", "o200k", "llama3", "qwen2", r"\p{L}+|[^\p{L}]+")
    },
    "end of text of another name": {"tokenizer": special, "end_of_text": "<s>"},
    "begin token": {"tokenizer": special, "begin_token": "<s>"},
    "begin token by its id": {"tokenizer": special, "begin_token": "257"},
    "dtype uint32": {"dtype": "uint32"},
    "dtype uint16": {"dtype": "uint16", "tokenizer": "gpt2"},
    "tokens_per_shard 100": {"tokens_per_shard": 100, "shards": True},
    "tokens_per_shard 7": {"tokens_per_shard": 7, "max_rows": 1},
    "tokens_per_shard 2500": {"tokens_per_shard": 2500, "shards": True},
    "compressed": {"compress": "zstd:3", "tokens_per_shard": 2500, "shards": True},
    "val_fraction 0": {"val_fraction": 0.0},
    "val_fraction 0.01": {"val_fraction": 0.01},
    "val_fraction 0.1": {"val_fraction": 0.1},
    "val_fraction 0.3": {"val_fraction": 0.3},
    "val_fraction 0.3 without repeated lines": {"val_fraction": 0.3, "dedup": "lines"},
    "val_fraction 0.3 without repeated documents": {"val_fraction": 0.3, "dedup": "documents"},
    "dedup_min_chars 0": {"dedup": "lines", "dedup_min_chars": 0},
    "dedup_min_chars 60": {"dedup": "lines", "dedup_min_chars": 60},
    "long_line 50": {"dedup": "lines", "long_line": 50},
}.items():
    inputs = JSONL
    if settings.pop("max_rows", None):
        inputs = file_of("a.jsonl", as_jsonl, 3, 1)
    freeze_dataset(f"setting {name}", inputs, **settings)
for kind, make in (("jsonl", as_jsonl), ("parquet", as_parquet)):
    freeze_dataset(
        f"setting text_field of .{kind}",
        file_of(f"a.{kind}", make, 3, 20, "body"),
        text_field="body",
    )
freeze_dataset(
    "setting text_field of .csv", file_of("a.csv", as_csv, 3, 20), text_field="other", dedup="none"
)
for separator in ("\n\n", "<|endoftext|>", "水"):
    freeze_dataset(
        f"setting separator {separator!r}",
        file_of("a.txt", lambda: as_text(3, 20).replace(b"This line", b"<|endoftext|>This line")),
        separator=separator,
        clean=False,
    )


def held(folder: Path, number: int = 1) -> Path:
    """Inputs for validation, some of which are in the others, too."""
    return a_file(f"../held{number}/v.jsonl", as_jsonl(3, 5) + as_jsonl(50 + number, 8), folder)


for dedup in ("none", "lines", "documents"):
    freeze_dataset(f"val_input, dedup {dedup}", JSONL, val_input=held, dedup=dedup, val_fraction=0)
    freeze_dataset(
        f"a validation set with a name and val_fraction, dedup {dedup}",
        JSONL,
        val_input=lambda folder: {"code": held(folder)},
        dedup=dedup,
    )
    freeze_dataset(
        f"validation sets with names, dedup {dedup}",
        JSONL,
        val_input=lambda folder: {"code": held(folder, 1), "law": [held(folder, 2)]},
        dedup=dedup,
        val_fraction=0,
    )


def bad(folder: Path, kind: str) -> Path:
    """An input of which some cannot be read."""
    texts = [text.encode() for text in texts_of(12, 12)]
    if kind == "txt":
        data = b"\n\n".join([*texts[:5], b"caf\xe9 \xff\xfe and \xf0\x9f\x8c cut", *texts[5:]])
    elif kind == "csv":
        data = as_csv(12, 6) + b'7,"a bad \xff byte",x\r\n8,too few\r\n' + b'9,"fine",x\r\n'
    else:
        rows = as_jsonl(12, 12).splitlines()
        rows[3:3] = [b"{not json", b'{"other": 1}', b'{"text": 5}', b"[]", b'{"text": "\xff"}']
        rows += [b'{"text": "\\ud800 half"}', b'{"text": null}', b"", b'{"text": "fine"}']
        data = b"\n".join(rows)
    return a_file(f"a.{kind}", data, folder)


def refused(shelf, *, kind) -> Parts:
    folder = shelf.new(f"refused {kind}")
    try:
        prepare(bad(folder, kind), folder / "out", clean=False, dedup="none", tokenizer="bytes")
    except tokenmill.errors.BadInputError as error:
        yield type(error).__name__


for kind in ("txt", "csv", "jsonl"):
    add_case(DATASETS, f"bad input is an error: .{kind}", partial(refused, kind=kind))
    for rule in ("skip", "replace"):
        for clean in (True, False):
            freeze_dataset(
                f"bad input, {rule}: .{kind} {'cleaned' if clean else 'as it is'}",
                partial(bad, kind=kind),
                on_bad_input=rule,
                clean=clean,
                document_is="paragraph",
            )


# Datasets made from others


def appended(shelf, *, clean=True, dedup, times=2, **settings) -> Parts:
    """The first dataset, then after each addition."""
    folder = shelf.new(f"append {clean} {dedup} {sorted(settings)}")
    out = folder / "out"
    settings = {"tokenizer": "bytes", "val_fraction": 0.4, "tokens_per_shard": 3000, **settings}
    prepare(file_of("0.jsonl", as_jsonl, 3, 30)(folder), out, clean=clean, dedup=dedup, **settings)
    yield from parts_of_splits(out)
    for number in range(1, times + 1):
        rows = as_jsonl(3, 4) + as_jsonl(20 + number, 20)
        append(a_file(f"{number}.jsonl", rows, folder), out)
        yield from parts_of_splits(out)


for dedup in ("none", "lines", "documents"):
    for clean in (True, False):
        named = f"{'cleaned' if clean else 'as it is'}, dedup {dedup}"
        add_case(
            DATASETS, f"appended to twice, {named}", partial(appended, clean=clean, dedup=dedup)
        )
add_case(
    DATASETS,
    "appended to, without a val split",
    partial(appended, dedup="lines", val_fraction=0.0),
)
add_case(
    DATASETS,
    "appended to, compressed",
    partial(appended, dedup="lines", compress="zstd:3"),
)


def served_after_growing(shelf, **settings) -> Parts:
    """A run that resumes on data that has grown meanwhile."""
    folder = shelf.new(f"grown {settings}")
    out, rule = folder / "out", {"clean": True, "dedup": "none"}
    prepare(
        file_of("0.jsonl", as_jsonl, 3, 10)(folder),
        out,
        tokenizer="bytes",
        val_fraction=0.0,
        tokens_per_shard=3000,
        **rule,
    )
    loader = make_loader(open_data(out), **settings)
    take(loader, 9)
    append(file_of("1.jsonl", as_jsonl, 21, 10)(folder), out)
    for batch in take(resumed(make_loader(open_data(out), **settings), loader.state_dict()), 60):
        yield from parts_of_batch(batch)


for rows in ROWS:
    add_case(
        BATCHES, f"resumed on data that has grown: {rows}", partial(served_after_growing, rows=rows)
    )


def pretokenized(shelf, *, name, text=None, tokenizer="gpt2", **settings) -> Parts:
    path = a_file("a.txt", as_text(3, 20) if text is None else text, shelf.new(name))
    if callable(tokenizer):
        tokenizer = tokenizer(shelf)
    yield pretokenize(path, tokenizer=tokenizer, **settings)


for name, settings in {
    "gpt2": {},
    "bytes": {"tokenizer": "bytes"},
    "chars": {"tokenizer": "chars"},
    "tokenizer.json": {"tokenizer": special},
    "with a separator": {"separator": "\n\n"},
    "small units": {"unit_bytes": 500},
    **{f"as {dtype}": {"dtype": dtype} for dtype in ("uint16", "uint32", "int32", "int64")},
}.items():
    full = f"pretokenize, {name}"
    add_case(DATASETS, full, partial(pretokenized, name=full, **settings))


def retokenized(shelf, *, name, tokenizer, **settings) -> Parts:
    if callable(tokenizer):
        tokenizer = tokenizer(shelf)
    source, out = our_dataset(shelf), shelf.new(name) / "out"
    return parts_of_splits(retokenize(source, out, tokenizer=tokenizer, **settings))


for name, settings in {
    "gpt2": {"tokenizer": "gpt2"},
    "bytes": {"tokenizer": "bytes"},
    "bytes as uint32": {"tokenizer": "bytes", "dtype": "uint32", "tokens_per_shard": 700},
    "a trained one": {"tokenizer": trained},
    "a begin token": {"tokenizer": special, "begin_token": "<s>"},
}.items():
    full = f"retokenize, {name}"
    add_case(DATASETS, full, partial(retokenized, name=full, **settings))


def trained_vocabulary(shelf, **settings) -> Parts:
    """The ids of a text in the tokenizer that training gives."""
    folder = shelf.new(f"train {settings}")
    tokenizer = train_tokenizer(
        rows_file(shelf), folder / "tok", clean=True, dedup="none", **settings
    )
    loaded = tokenmill.load_tokenizer(str(tokenizer))
    yield from (loaded.decode(np.array([each])) for each in range(loaded.vocab_size))


for pattern in ("gpt2", "cl100k", "o200k"):
    add_case(
        DATASETS,
        f"a trained vocabulary, {pattern}",
        partial(trained_vocabulary, pattern=pattern, vocab_size=350),
    )


def converted(shelf, *, name, to, **options) -> Parts:
    """What is read from files of another format, split by split."""
    given = our_dataset(shelf, tokenizer="gpt2")
    folder = shelf.new(name)
    out = convert(given, folder / "out", to=to, **options)
    how = {"dtype": "uint16"} if to in ("nanogpt", "dolma") else {}
    how |= {"end_of_text": 50256} if to in ("nanogpt", "npy") else {}
    for split in ("train", "val"):
        try:
            data = open_data(out, split, **how)
        except tokenmill.TokenmillError:
            continue
        yield from (split, *parts_of_data(data))


WRITTEN = (
    "tokenmill",
    "mds",
    "litdata",
    "llmc",
    "npy",
    "megatron",
    "datatrove",
    "dolma",
    "nanogpt",
)
for to in WRITTEN:
    for name, options in {
        "": {},
        ", compressed": {"compress": "zstd:3"},
        ", as uint32": {"to_dtype": "uint32"},
        ", in shards of 700": {"tokens_per_shard": 700},
    }.items():
        if options and to != "tokenmill":
            continue
        full = f"convert to {to}{name}"
        add_case(DATASETS, full, partial(converted, name=full, to=to, **options))
for name in FOREIGN:
    full = f"convert {name} to ours"

    def convert_foreign(shelf, name=name, full=full):
        out = shelf.new(full) / "out"
        to = "npy" if name == "llmc_uint32" else "tokenmill"  # of that one, gpt2 has not all ids
        how = FOREIGN[name] if to == "npy" else {"tokenizer": "gpt2", **FOREIGN[name]}
        add = name in WITHOUT_DOCUMENTS
        convert(TESTS / "data" / name, out, to=to, add_end_of_text=add, **how)
        return parts_of_splits(out)

    def read_foreign(shelf, name=name):
        for split in ("all", "train", "val"):
            yield from parts_of_data(foreign(shelf, name, split))

    add_case(DATASETS, full, convert_foreign)
    add_case(DATASETS, f"read {name}", read_foreign)


def prepared_in_store(shelf) -> Parts:
    with at_store(shelf):
        return list(parts_of_data(in_store(shelf)))


add_case(DATASETS, "prepared in a store", prepared_in_store)


def main() -> None:
    """Write the hashes, of all cases or of those with a text in their name."""
    sys.path.insert(0, str(TESTS))
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    if sys.argv[1:2] != ["--write"]:
        sys.exit(__doc__)
    FROZEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        shelf = Shelf(Path(folder))
        stack.callback(shelf.close)
        for table, cases in TABLES.items():
            path = FROZEN / f"{table}.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            found = {
                name: run_case(case, shelf) if only in name or name not in known else known[name]
                for name, case in cases.items()
            }
            path.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
            print(f"{path.name}: {len(found)} cases")


if __name__ == "__main__":
    main()
