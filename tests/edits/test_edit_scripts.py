"""Random scripts of edits: what is served is what a plain slow model of the docs serves.

Each script makes a run on 1 to 3 ranks, edits it, stops and resumes it on other ranks and batch
sizes, and compares all that was served with the model at the end: an edit that changed the past
would be seen. TOKENMILL_EDIT_SCRIPTS=10000 runs more of them than the suite does.
"""

import json
import os
import random

import numpy as np
import pytest
from edits.plain_edits import (
    BEGIN,
    END_OF_TEXT,
    PADDING,
    Grown,
    HowRowsAreMade,
    PlainRun,
    RefusedError,
    Served,
    documents_in,
)

import tokenmill
from tokenmill import BatchLoader, Mixture
from tokenmill.batches import BatchForm
from tokenmill.edits import Add, Ban, Cap, Reweight, Skip, edit_state
from tokenmill.edits.edited_order import EditedOrder
from tokenmill.order.blocks import Blocks

NUM_SCRIPTS = int(os.environ.get("TOKENMILL_EDIT_SCRIPTS", "80"))
GROUPS = 20
ORDERS = {"shuffle": "shuffle", "sequential": "sequential", (3, 2): Blocks(3, 2)}
SIZES = {"web": 150, "code": 43, "wiki": 71}


BEGIN_TOKEN = 9999


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Datasets of raw files by name: each as it was at first, and after it has grown."""
    folder = tmp_path_factory.mktemp("sources")

    def make(name, size):
        paths, rng = [], np.random.default_rng(size)
        for part, count in enumerate((size // 3, size - size // 3, size // 2)):
            paths.append(folder / f"{name}_{part}.bin")
            ids = np.arange(1, count + 1, dtype=np.uint16)
            ends = rng.geometric(0.15, count).cumsum()
            ids[ends[ends < count] - 1] = END_OF_TEXT  # the last one ends in the next file
            ids.tofile(paths[-1])
        options = {"dtype": "uint16", "end_of_text": END_OF_TEXT}
        return [tokenmill.open(paths[:n], split="all", **options) for n in (2, 3)]

    return {name: make(name, size) for name, size in SIZES.items()}


class Script:
    """A run that is edited at random, and what it has served."""

    def __init__(self, number, opened):
        self.random = random.Random(number)
        self.opened, self.edits, self.served = opened, [], {}
        rng = self.random
        self.seed = rng.choice([0, 7, 2**40])
        self.how = self.random_rows()
        names = rng.choice([["web"], ["web", "code"], ["code", "web", "wiki"]])
        self.sizes = dict.fromkeys(names, 0)
        self.stages = None
        if len(self.sizes) > 1:
            starts = [0, *sorted(rng.sample(range(1, 200), rng.choice([0, 0, 1, 2])))]
            self.stages = [(start, self.parts(len(self.sizes))) for start in starts]
        self.begin(None)

    def random_rows(self):
        rng = self.random
        kind = rng.choice(["windows", "packed", "packed", "documents"])
        if kind == "windows":
            order, more = rng.choice(list(ORDERS)), (rng.random() < 0.25, False)
        else:
            order, more = rng.choice(["shuffle", "sequential"]), (False, rng.random() < 0.25)
        return HowRowsAreMade(kind, order, rng.choice([3, 5, 8, 21]), *more)

    def parts(self, count):
        while not any(parts := [self.random.choice([0, 1, 1, 2, 3, 7]) for _ in range(count)]):
            pass
        return tuple(parts)

    # The run

    def begin(self, state):
        """Loaders for all ranks, which resume from a state."""
        rng = self.random
        self.world, batch_size = rng.choice([1, 2, 3]), rng.choice([1, 2, 5])
        datasets = {name: self.opened[name][grown] for name, grown in self.sizes.items()}
        data = datasets["web"] if self.stages is None else self.mixture(datasets)
        self.loaders = [
            BatchLoader(
                data,
                batch_size=batch_size,
                rank=rank,
                world_size=self.world,
                block_size=self.how.block_size,
                seed=self.seed,
                order=ORDERS[self.how.order],
                phase=self.how.phase,
                rows=self.how.kind,
                begin_token=BEGIN_TOKEN if self.how.begin else None,
                form=BatchForm(prefetch=rng.choice([0, 0, 0, 2])),
            )
            for rank in range(self.world)
        ]
        if state is not None:
            for loader in self.loaders:
                loader.load_state_dict(state, sources=self.added)

    @property
    def added(self):
        names = [edit.name for _, edit in self.edits if isinstance(edit, Add)]
        return {name: self.opened["wiki"][0] for name in names}

    def mixture(self, datasets):
        schedule = [(at, dict(zip(datasets, parts, strict=True))) for at, parts in self.stages]
        return Mixture(datasets, schedule=schedule)

    @property
    def samples(self):
        return self.loaders[0].state_dict()["samples"]

    def serve(self, num_steps):
        for _ in range(num_steps):
            batches = [next(loader, None) for loader in self.loaders]
            for loader, batch in zip(self.loaders, batches, strict=True):
                if batch is not None:
                    self.keep(loader, batch)
        assert len({loader.order_fingerprint for loader in self.loaders}) == 1

    def keep(self, loader, batch):
        epochs, losses = loader._run.order.epoch_of(batch.samples), batch.labels != -100
        for row, sample in enumerate(batch.samples.tolist()):
            source, columns = batch.sources[row], self.columns(batch, row)
            data = loader.datasets[source].tokens(0, loader.datasets[source].num_tokens)
            ids = np.append(data, [END_OF_TEXT, BEGIN_TOKEN])[columns]  # at PADDING and BEGIN
            assert np.array_equal(batch.tokens[row], ids)
            name = self.plain(loader.names[source])
            self.served[sample] = Served(name, epochs[row], columns, losses[row].tolist())
        if self.random.random() < 0.1:
            place = loader.locate(batch.step, row)
            assert place[:3] == (loader.names[source], epochs[row], sample)
            assert place.position == columns[columns[0] == BEGIN]
            assert np.array_equal(loader.batch(batch.step).tokens, batch.tokens)

    def columns(self, batch, row):
        """The tokens of a row by their place on the axis."""
        if self.how.kind == "windows":
            return list(range(batch.starts[row], batch.starts[row] + self.how.block_size + 1))
        spans, found = batch.spans.between(row, row + 1), []
        tables = (each.tolist() for each in (spans.start, spans.length, spans.after_begin))
        for start, length, after_begin in zip(*tables, strict=True):
            found += [BEGIN] * after_begin + list(range(start, start + length))
        return found + [PADDING] * (self.how.block_size + 1 - len(found))

    def plain(self, name):
        return "web" if name == "data" else name

    # Its edits

    def step_of_edit(self):
        return self.loaders[0].step + self.random.choice([0, 0, 1, 4, 9])

    def make_edit(self):
        rng, names = self.random, list(self.loaders[0].names)
        kind = rng.choice(["skip", "reweight", "cap", "ban", "ban", "add"])
        if kind == "skip":
            first = self.samples + rng.choice([0, 1, 5, 30])
            return Skip(samples=(first, first + rng.choice([1, 3, 20, 90])))
        if kind == "reweight":
            return Reweight(dict(zip(names, self.parts(len(names)), strict=True)))
        if kind == "cap":
            then = rng.choice(["share", "share", "share", "end"])
            return Cap({rng.choice(names): rng.choice([1, 2, 3, None])}, then=then)
        if kind == "ban":
            source = rng.choice(names)
            data = self.loaders[0].datasets[names.index(source)]
            if rng.random() < 0.5:
                count = len(documents_in(data))
                return Ban(documents=rng.sample(range(count), rng.randint(1, 5)), source=source)
            start = rng.randrange(data.num_tokens - 1)
            stop = rng.randrange(start + 1, min(data.num_tokens, start + 40) + 1)
            return Ban(tokens=(start, stop), source=source)
        weights = dict.fromkeys([*names, "new"], 1) | {names[0]: rng.choice([0, 3])}
        return Add("new", self.opened["wiki"][0], weights=weights)

    def edit(self):
        """One more edit, by the loaders or by their state; a refused one changes nothing."""
        edit, step = self.make_edit(), self.step_of_edit()
        at = edit.samples[0] if isinstance(edit, Skip) else None
        first = self.loaders[0]
        if at is None:
            at = first._maker.share.first_sample(step)
        before = first.state_dict()
        try:
            for loader in self.loaders:
                loader.edit(edit, at=step)
        except ValueError:
            assert first.state_dict() == before
            with pytest.raises((RefusedError, ValueError)):
                self.model([*self.edits, (at, edit)], max(at, self.samples) + 1)
            return
        self.edits.append((at, edit))
        if self.random.random() < 0.3:
            edited = edit_state(before, edit, at=at)
            assert edited == first.state_dict()

    def resume(self):
        """Stop, and resume on other ranks, perhaps with data that has grown."""
        state = json.loads(json.dumps(self.loaders[0].state_dict()))
        name = self.random.choice(list(self.sizes))
        if self.random.random() < 0.2 and not self.sizes[name]:
            self.sizes[name] = 1
            known = "data" if self.stages is None else name
            order = self.loaders[0]._run.order
            if not (isinstance(order, EditedOrder) and order.is_over(self.samples)):
                grown = Grown(known, documents_in(self.opened[name][1]))
                self.edits.append((state["samples"], grown))
        self.begin(state)

    # The comparison

    def model(self, edits, num_samples):
        lengths = {name: documents_in(self.opened[name][0]) for name in self.sizes}
        if self.stages is None:
            lengths = {"data": lengths["web"]}
        self.plain_run = PlainRun(lengths, self.stages, seed=self.seed, how=self.how)
        return self.plain_run.serve(edits, num_samples)

    def compare(self):
        horizon = max([self.samples, *(at for at, _ in self.edits)])
        expected = self.model(self.edits, horizon)
        served = [self.served.get(sample) for sample in range(len(expected))]
        for sample, (ours, plain) in enumerate(zip(served, expected, strict=True)):
            if ours is not None:
                assert ours == plain._replace(source=self.plain(plain.source)), sample
        left = len(expected) - len(self.served)
        assert left < self.loaders[0].batch_size * self.world or horizon > self.samples
        self.look_up(expected[: self.samples])
        for step in (0, 25):
            self.look_at_usage(self.loaders[0].step + step)
        self.look_at_usage(self.loaders[0].step // 2)

    def look_at_usage(self, step):
        """`usage` is what counting every target of the model gives, in the past and the future."""
        loader = self.loaders[0]
        share = loader._maker.share
        last_edit = max([0, *(at for at, _ in self.edits)])
        served = self.model(self.edits, max(share.first_sample(step), last_edit))
        num_steps = min(step, (len(served) - share.origin) // share.samples_per_step)
        served = served[: share.first_sample(num_steps)]
        sources = zip(loader.names, loader.datasets, self.plain_run.sources, strict=True)
        for use, (name, data, source) in zip(loader.usage(step), sources, strict=True):
            rows = [row for row in served if self.plain(row.source) == self.plain(name)]
            targets = [
                token
                for row in rows
                for token, has_loss in zip(row.columns[1:], row.losses, strict=True)
                if has_loss
            ]
            by_shard, _ = np.histogram(targets, data.shard_starts)
            assert [shard.used for shard in use.shards] == by_shard.tolist()
            assert (use.source, use.samples, use.used) == (name, len(rows), len(targets))
            epochs = sum(1 / source.rows_of_epochs[row.epoch] for row in rows)
            assert use.epochs == pytest.approx(epochs)

    def look_up(self, expected):
        """`when` finds just the samples of the model that train on a token; `locate` inverts it."""
        loader, rng = self.loaders[0], self.random
        share = loader._maker.share
        epochs = range(1 + max([served.epoch for served in expected], default=0))
        for name in loader.names:
            lengths = documents_in(loader.datasets[loader.names.index(name)])
            document, token = rng.randrange(len(lengths)), rng.randrange(1, sum(lengths))
            start = sum(lengths[:document])
            for tokens in (range(token, token + 1), range(start, start + lengths[document])):
                visits = loader.when(tokens=(tokens.start, tokens.stop), source=name, epochs=epochs)
                found = [
                    share.first_sample(v.step) + v.rank * share.batch_size + v.row for v in visits
                ]
                wanted = self.training_on(tokens, name, expected)
                mine = [sample for sample in found if sample < len(expected)]
                assert mine == [sample for sample in wanted if sample >= share.origin]
                for sample, visit in list(zip(mine, visits, strict=False))[-3:]:
                    place = loader.locate(visit.step, visit.row, wanted[sample], rank=visit.rank)
                    assert place[:3] == (name, visit.epoch, sample)
                    assert place.position in tokens
            assert visits == loader.when(document, source=name, epochs=epochs)

    def training_on(self, tokens, name, expected):
        """The samples that train on one of these tokens of a source, and a column that does."""
        found = {}
        for sample, (source, _, columns, losses) in enumerate(expected):
            if self.plain(source) == self.plain(name):
                for column, (token, has_loss) in enumerate(zip(columns[1:], losses, strict=True)):
                    if has_loss and token in tokens:
                        found[sample] = column + 1
        return found


def run_script(script):
    rng = script.random
    for _ in range(rng.choice([2, 4, 7])):
        script.serve(rng.choice([0, 1, 3, 10]))
        script.edit()
        if rng.random() < 0.4:
            script.resume()
    script.serve(rng.choice([2, 20]))
    script.compare()


@pytest.mark.parametrize("group", range(GROUPS))
def test_what_is_served_is_what_a_plain_slow_model_serves(opened, group):
    for number in range(group, NUM_SCRIPTS, GROUPS):
        script = Script(number, opened)
        try:
            run_script(script)
        except BaseException:
            print("script", number, script.edits)
            raise
