"""The stages have one name each, wherever a user meets them."""

import re
from itertools import product
from pathlib import Path

import flat
import pytest

from tokenmill.base.progress import Progress
from tokenmill.executors.numbered import JobPart
from tokenmill.preparation import jobs
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.stage_table import STAGES, stages_for
from tokenmill.preparation.workspace.work_folder import WorkFolder

DOCS = Path(__file__).parents[2] / "docs"


class Labels(Progress):
    """Keeps what a progress bar would be called."""

    def __init__(self):
        self.seen = []

    def follow(self, what, results, **total):
        self.seen.append(what)
        return super().follow(what, results, **total)


@pytest.fixture
def corpus(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"A line of abc that is in file {name} alone.\n" * 3)
    return [tmp_path / "a.txt", tmp_path / "b.txt"]


def plan_of(settings, adds, **options):
    """A plan with nothing to read."""
    return Plan(WorkFolder("out"), settings, (), (), previous="0" * 32 if adds else None, **options)


@pytest.mark.parametrize("dedup", ["lines", "documents", "none"])
@pytest.mark.parametrize("tokenizer", ["bytes", "chars"])
def test_the_stages_that_run_are_those_of_the_table(corpus, tmp_path, dedup, tokenizer):
    settings, out = {"dedup": dedup, "tokenizer": tokenizer}, tmp_path / "out"
    for adds, inputs in ((False, corpus), (True, tmp_path / "c.txt")):
        labels = Labels()
        flat.prepare(inputs, out, workers=1, append=adds, progress=labels, **settings)

        expected = [stage.name for stage in stages_for(plan_of(Settings(**settings), adds))]
        assert labels.seen == expected


def test_status_and_the_slurm_script_use_the_words_of_the_table(corpus, tmp_path):
    settings, out = Settings(tokenizer="bytes"), tmp_path / "out"
    plan = flat.plan(corpus, out, tokenizer="bytes")
    expected = [stage.name for stage in stages_for(plan_of(settings, adds=False))]

    script = jobs.make_slurm_script(str(out), plan, 2, 1, "1G")
    assert "; ".join(f"{n} {name}" for n, name in enumerate(expected, 1)) in script
    assert f"for stage in {' '.join(str(n) for n in range(1, len(expected) + 1))};" in script

    jobs.work(out, JobPart(0, 1))
    assert [stage.name for stage in jobs.status(out).stages] == expected


def test_the_docs_have_the_same_table():
    page = (DOCS / "guides" / "many_machines.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)

    assert [row[:2] for row in rows] == [(stage.name, stage.per) for stage in STAGES]
    for (name, _, when), stage in zip(rows, STAGES, strict=True):
        for dedup, tokenizer, adds, held_out in product(
            ("lines", "documents", "near", "none"), ("gpt2", "chars"), (False, True), (False, True)
        ):
            said = (
                (
                    f"--dedup {dedup}`" in when
                    or "--dedup" not in when
                    or (held_out and "`--val_input`" in when)
                )
                and (f"--tokenizer {tokenizer}`" in when or "--tokenizer" not in when)
                and (adds or "--append" not in when)
                and (not adds or "new dataset" not in when)
                and "compressed" not in when
                and "--decontaminate" not in when
                and "--facts" not in when
            )
            settings = Settings(dedup=dedup, tokenizer=tokenizer)
            plan = plan_of(settings, adds, keeps_apart=held_out)
            assert stage.when(plan) == said, (name, settings, adds, held_out)


def test_the_status_shown_in_the_docs_names_stages():
    page = (DOCS / "guides" / "many_machines.md").read_text()
    shown = re.findall(r"^([a-z-]+) +[\d,]+ of [\d,]+ done$", page, re.MULTILINE)

    assert shown
    assert set(shown) <= {stage.name for stage in STAGES}
