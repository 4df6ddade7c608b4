"""examples/plain_reader.py, written from the pages alone, gives the batches of BatchLoader.

And the pages are exact: their tables of values hold, for the reader and for the library.
"""

import ast
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from order.made_orders import located, made_order
from spec_vectors import vectors

import tokenmill
from tokenmill.batches import BatchForm
from tokenmill.dataset import from_array
from tokenmill.edits import Reweight
from tokenmill.order.blocks import Blocks
from tokenmill.order.mixture_order import whole_parts
from tokenmill.order.permutation import round_keys, shuffle

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "plain_reader.py"
ORDERS = {
    "shuffle": {},
    "sequential": {"order": "sequential"},
    "random": {"order": "random"},
    "blocks": {"order": "blocks"},
    "small blocks": {"order": Blocks(3, 4)},
    "phase": {"phase": True},
    "blocks with phase": {"order": Blocks(3, 4), "phase": True},
    "shards with phase": {"order": "blocks", "phase": True},
}


@pytest.fixture(scope="module")
def reader():
    names = {"__name__": "plain_reader"}
    exec(compile(SCRIPT.read_text(), str(SCRIPT), "exec"), names)
    return names


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dataset of several shards."""
    place = tmp_path_factory.mktemp("plain")
    lines = (f"line {i} of the corpus, {i * 7919 % 1000} words from the mill\n" for i in range(400))
    (place / "corpus.txt").write_text("\n".join(lines))
    tokenmill.prepare(
        place / "corpus.txt", place / "data", tokenizer="bytes", tokens_per_shard=1000, workers=1
    )
    return place / "data"


class Listed:
    """Tokens in memory, as the reader takes them."""

    def __init__(self, tokens):
        self.num_tokens, self._tokens = len(tokens), tokens
        self.shards = [("", len(tokens))]

    def read(self, start, count):
        return self._tokens[start : start + count].tolist()


def plain_options(options):
    order = options.get("order")
    if isinstance(order, Blocks):
        options = {**options, "order": (order.windows_per_block, order.blocks_per_group)}
    return options


def assert_same(rows, batch):
    assert np.array_equal([inputs for inputs, _ in rows], batch.inputs)
    assert np.array_equal([targets for _, targets in rows], batch.targets)


@pytest.mark.parametrize("options", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("seed", [0, 2**33 + 5])
def test_batches_of_a_dataset(reader, folder, options, seed):
    """Every step of two epochs and a bit, so that short blocks and groups are met."""
    data = tokenmill.open(folder)
    split = reader["Split"](folder)
    sizes = {"batch_size": 2, "block_size": 50, "seed": seed, "world_size": 3}
    assert len(split.shards) > 3
    per_epoch = data.num_tokens // 50

    for step in range(per_epoch * 2 // 6 + 3):
        rank = step % 3
        rows = reader["batch"]([split], step, rank=rank, **sizes, **plain_options(options))
        loader = tokenmill.BatchLoader(data, rank=rank, **sizes, **options)
        assert_same(rows, loader.batch(step))


def test_resuming_a_state_with_another_batch_size(reader, folder):
    loader = tokenmill.BatchLoader(tokenmill.open(folder), batch_size=5, block_size=16, seed=3)
    next(iter(loader))
    state = loader.state_dict()
    resumed = tokenmill.BatchLoader(tokenmill.open(folder), batch_size=2, block_size=16, seed=3)
    resumed.load_state_dict(state)

    split, samples = reader["Split"](folder), state["samples"]
    step, origin = reader["step_of"](samples, 2)
    sizes = {"batch_size": 2, "block_size": 16, "seed": 3}

    assert (samples, step, origin) == (5, 2, 1)
    assert resumed.step == step
    for number in (0, 1, 2):
        rows = reader["batch"]([split], number, samples=samples, **sizes)
        assert_same(rows, resumed.batch(number))
    assert_same(rows, next(iter(resumed)))


@pytest.mark.parametrize("options", ORDERS.values(), ids=ORDERS)
def test_batches_of_a_part(reader, folder, options):
    """Its first and its last shard are cut, so that blocks are smaller than those of the data."""
    data = tokenmill.open(folder)
    start, stop = 333, data.num_tokens - 420
    shards = [tokens for _, tokens in reader["Split"](folder).shards]
    listed = Listed(data[start:stop])
    listed.shards = [("", tokens) for tokens in reader["part"](shards, start, stop)]
    assert len(listed.shards) > 3
    sizes = {"batch_size": 3, "block_size": 50, "seed": 11}
    loader = tokenmill.BatchLoader(data.part(start, stop), **sizes, **options)

    for step in range(2 * listed.num_tokens // 150):
        rows = reader["batch"]([listed], step, **sizes, **plain_options(options))
        assert_same(rows, loader.batch(step))


def test_the_fingerprint_of_the_order_in_a_state():
    state = tokenmill.BatchLoader(from_array(np.arange(1000)), block_size=10, seed=7).state_dict()
    named = ("block_size", "order", "order_version", "phase", "seed", "stages")

    text = json.dumps({key: state[key] for key in named}, sort_keys=True, separators=(",", ":"))

    hashed = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    assert hashed == state["order_fingerprint"]


@pytest.mark.parametrize("options", [{}, {"order": "random"}, {"phase": True}], ids=str)
def test_a_mixture_with_a_change_of_weights(reader, options):
    tokens = [np.arange(n, dtype="<u2") for n in (5003, 701, 2999)]
    weights = [(0.7, 0.25, 0.05), (1, 0, 3)]
    stages = list(zip((0, 50), weights, strict=True))
    schedule = [(at, dict(zip("abc", each, strict=True))) for at, each in stages]
    sources = dict(zip("abc", map(from_array, tokens), strict=True))
    data = tokenmill.Mixture(sources, schedule=schedule, samples_per_step=4)
    sizes = {"batch_size": 4, "block_size": 20, "seed": 9}
    loader = tokenmill.BatchLoader(data, **sizes, **options)
    stages = [(4 * at, whole_parts(each)) for at, each in stages]

    for step in [*range(20), 47, 48, 49, 50, 51, 52, 70, 200]:
        rows = reader["batch"](
            [Listed(each) for each in tokens], step, stages=stages, **sizes, **options
        )
        assert_same(rows, loader.batch(step))


def test_it_runs_as_the_first_line_says(folder):
    command = [sys.executable, "-I", SCRIPT, folder, "--batch_size", "2", "--block_size", "8"]

    done = subprocess.run([*command, "--step", "3"], capture_output=True, text=True, check=True)

    loader = tokenmill.BatchLoader(tokenmill.open(folder), batch_size=2, block_size=8)
    rows = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert rows == loader.batch(3).inputs.tolist()


def test_it_needs_nothing_but_the_standard_library_and_is_short():
    text = SCRIPT.read_text()
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.partition(".")[0])

    assert imported <= sys.stdlib_module_names
    assert len(text.splitlines()) <= 270


def step_of(samples, batch_size, world_size=1, first=0):
    """The next step of a loader that resumes, and its first sample; a pass has 100 samples."""
    loader = tokenmill.BatchLoader(
        from_array(np.arange(1001)),
        batch_size=batch_size,
        world_size=world_size,
        block_size=10,
        epochs=1 if first else None,
    )
    loader.load_state_dict({**loader.state_dict(), "samples": samples, "pass": first // 100})
    return loader.step, loader.locate(0, 0).sample


def part(shards, start, stop):
    """The shards of a part of a dataset that is made for it."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{number}.npy" for number in range(len(shards))]
        for path, tokens in zip(paths, shards, strict=True):
            np.save(path, np.zeros(tokens, np.uint16))
        data = tokenmill.open(paths, split="all")
        return [shard.num_tokens for shard in data.part(start, stop).shards]


def cu_seqlens(rows, T, max_documents=None):  # noqa: N803
    """That of a batch of windows whose documents have so many inputs each."""
    ends = np.cumsum([inputs for row in rows for inputs in row])
    data = from_array(np.arange(ends[-1] + 1), document_ends=[*ends, ends[-1] + 1])
    loader = tokenmill.BatchLoader(
        data,
        batch_size=len(rows),
        block_size=T,
        order="sequential",
        documents=True,
        form=BatchForm(max_documents=max_documents),
    )
    return loader.batch(0).cu_seqlens.tolist()


OF_THE_LIBRARY = {"step_of": step_of, "part": part, "cu_seqlens": cu_seqlens}


@pytest.mark.parametrize(("expression", "value"), vectors("order"))
def test_vectors_of_the_page_hold_for_the_reader(reader, expression, value):
    assert repr(eval(expression, dict(reader))) == value


def test_vectors_of_the_page_are_of_every_kind_and_hold_for_the_library():
    of_page = dict(vectors("order"))
    names = ("keys", "mix", "permute", "blocks", "shard_blocks", "start_of", "deal", "mixture")
    for name in (*names, *OF_THE_LIBRARY):
        assert any(f"{name}(" in expression for expression in of_page), name

    assert of_page["[hex(key) for key in keys(0, 0)[:2]]"] == repr(
        [hex(key) for key in round_keys(0, 0)[:2]]
    )
    assert of_page["[permute(p, 8, keys(0, 0)) for p in range(8)]"] == repr(
        shuffle(np.arange(8), 8, seed=0, epoch=0).tolist()
    )
    order = made_order([1000], block_size=10, seed=7, phase=True)
    assert of_page["[start_of(g, 1000, 10, 7, phase=True) for g in range(4)]"] == repr(
        located(order, np.arange(4))[1].tolist()
    )


@pytest.mark.parametrize("name", OF_THE_LIBRARY)
def test_vectors_of_steps_parts_and_sequences_hold_for_the_library(reader, name):
    of_page = {e: v for e, v in vectors("order") if f"{name}(" in e and "start_of(" not in e}
    assert len(of_page) >= 2

    for expression, value in of_page.items():
        assert repr(eval(expression, dict(OF_THE_LIBRARY))) == value


def test_more_documents_than_were_allowed_for_are_refused(reader):
    for names in (reader, OF_THE_LIBRARY):
        with pytest.raises(ValueError, match="room for 2"):
            names["cu_seqlens"]([[3, 5], [8]], 8, 1)


@pytest.mark.parametrize("end", [None, 120], ids=["endless", "scheduled"])
def test_a_stage_that_an_edit_ends_inside_a_block(end):
    """Its last block stays as it was dealt, to where it was to end."""
    weights = dict(zip("abc", (7, 2, 1), strict=True))
    sources = {name: from_array(np.arange(1000)) for name in "abc"}
    schedule = [(0, weights)] + [(end, {**weights, "c": 5})] * (end is not None)
    data = tokenmill.Mixture(sources, schedule=schedule, samples_per_step=1)
    loader = tokenmill.BatchLoader(data, batch_size=1, block_size=10, seed=42)
    loader.edit(Reweight({"a": 1, "b": 1, "c": 0}), at=100)
    samples = (63, 64, 99, 100, 10**9)
    stages = [(0, [7, 2, 1], end), (100, [1, 1, 0])]

    source, index = loader._run.order.deal(np.array(samples))

    found = [*zip(source.tolist(), index.tolist(), strict=True)]
    assert dict(vectors("order"))[f"[mixture(g, {stages}, 42) for g in {show(samples)}]"] == repr(
        found
    )


def show(samples):
    return repr(samples).replace(str(10**9), "10**9")
