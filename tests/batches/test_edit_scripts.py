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
from batches.plain_edits import Grown, PlainRun, RefusedError

import tokenmill
from tokenmill import Add, Ban, BatchLoader, Blocks, Cap, Mixture, Reweight, Skip

NUM_SCRIPTS = int(os.environ.get("TOKENMILL_EDIT_SCRIPTS", "100"))
GROUPS = 10
ORDERS = {"shuffle": "shuffle", "sequential": "sequential", (3, 2): Blocks(3, 2)}
SIZES = {"web": 150, "code": 43, "wiki": 71}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Datasets of raw files by name: each as it was at first, and after it has grown."""
    folder = tmp_path_factory.mktemp("sources")

    def make(name, size):
        paths = []
        for part, count in enumerate((size // 3, size - size // 3, size // 2)):
            paths.append(folder / f"{name}_{part}.bin")
            np.arange(count, dtype=np.uint16).tofile(paths[-1])
        return [tokenmill.open(paths[:n], split="all", dtype="uint16") for n in (2, 3)]

    return {name: make(name, size) for name, size in SIZES.items()}


class Script:
    """A run that is edited at random, and what it has served."""

    def __init__(self, number, opened):
        self.random = random.Random(number)
        self.opened, self.edits, self.served = opened, [], {}
        rng = self.random
        self.order, self.phase = rng.choice(list(ORDERS)), rng.random() < 0.25
        self.options = {"block_size": rng.choice([3, 5, 8]), "seed": rng.choice([0, 7, 2**40])}
        names = rng.choice([["web"], ["web", "code"], ["code", "web", "wiki"]])
        self.sizes = dict.fromkeys(names, 0)
        self.stages = None
        if len(self.sizes) > 1:
            starts = [0, *sorted(rng.sample(range(1, 200), rng.choice([0, 0, 1, 2])))]
            self.stages = [(start, self.parts(len(self.sizes))) for start in starts]
        self.begin(None)

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
                order=ORDERS[self.order],
                phase=self.phase,
                prefetch=rng.choice([0, 0, 0, 2]),
                **self.options,
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
        banned = np.zeros(batch.inputs.shape, bool) if batch.banned is None else batch.banned[:, 1:]
        epochs = loader._order.epoch_of(batch.samples)
        for row, sample in enumerate(batch.samples.tolist()):
            name, epoch, start = loader.names[batch.sources[row]], epochs[row], batch.starts[row]
            self.served[sample] = (self.plain(name), epoch, start, banned[row].tolist())
        if self.random.random() < 0.1:
            place = loader.locate(batch.step, row)
            assert place[:4] == (name, epoch, sample, start)
            assert np.array_equal(loader.batch(batch.step).tokens, batch.tokens)

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
            size = self.loaders[0].datasets[names.index(source)].num_tokens
            start = rng.randrange(size - 1)
            stop = rng.randrange(start + 1, min(size, start + 40) + 1)
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
            edited = tokenmill.edit_state(before, edit, at=at)
            assert edited == first.state_dict()

    def resume(self):
        """Stop, and resume on other ranks, perhaps with data that has grown."""
        state = json.loads(json.dumps(self.loaders[0].state_dict()))
        name = self.random.choice(list(self.sizes))
        if self.random.random() < 0.2 and not self.sizes[name]:
            self.sizes[name] = 1
            known = "data" if self.stages is None else name
            if not self.loaders[0]._order.is_over(self.samples):
                grown = Grown(known, self.opened[name][1].num_tokens)
                self.edits.append((state["samples"], grown))
        self.begin(state)

    # The comparison

    def model(self, edits, num_samples):
        sizes = {name: self.opened[name][0].num_tokens for name in self.sizes}
        if self.stages is None:
            sizes = {"data": sizes["web"]}
        run = PlainRun(sizes, self.stages, order=self.order, phase=self.phase, **self.options)
        return run.serve(edits, num_samples)

    def compare(self):
        horizon = max([self.samples, *(at for at, _ in self.edits)])
        expected = self.model(self.edits, horizon)
        served = [self.served.get(sample) for sample in range(len(expected))]
        for sample, (ours, plain) in enumerate(zip(served, expected, strict=True)):
            if ours is not None:
                assert ours == (self.plain(plain[0]), *plain[1:]), sample
        left = len(expected) - len(self.served)
        assert left < self.loaders[0].batch_size * self.world or horizon > self.samples
        self.look_up(expected[: self.samples])

    def look_up(self, expected):
        """`when` finds just the samples of the model that train on a token."""
        loader, rng = self.loaders[0], self.random
        origin = loader._maker.share.origin
        epochs = range(1 + max([epoch for _, epoch, _, _ in expected], default=0))
        for name in loader.names:
            size = loader.datasets[loader.names.index(name)].num_tokens
            token = rng.randrange(1, size)
            visits = loader.when(tokens=(token, token + 1), source=name, epochs=epochs)
            share = loader._maker.share
            found = [share.first_sample(v.step) + v.rank * share.batch_size + v.row for v in visits]
            wanted = [
                sample
                for sample, (source, _, start, banned) in enumerate(expected)
                if self.plain(source) == self.plain(name)
                and start < token <= start + loader.block_size
                and not banned[token - start - 1]
            ]
            mine = [sample for sample in found if sample < len(expected)]
            assert mine == [sample for sample in wanted if sample >= origin]


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
