"""Numbers on our pages are those of the results that they come from."""

import json

import pytest
from docs_blocks import ROOT

RESULTS = ROOT / "bench" / "results"


def page_of(name):
    return " ".join((ROOT / "docs" / "guides" / name).read_text(encoding="utf-8").split())


def result_of(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def test_the_killed_run_differs_by_what_the_page_says():
    result = result_of("killed_run.json")
    loss, val_loss = (result["largest_difference"][name] for name in ("loss", "val_loss"))

    assert (
        "Over {steps:,} steps of a GPT with {n_layer} layers of width {n_embd} on a CPU, the "
        f"largest difference of a training loss is {loss:.6f}, of a validation loss {val_loss:.6f}."
    ).format(**result, **result["model"]) in page_of("training.md")


def test_the_table_of_memory_is_the_one_that_was_measured():
    ways = ("tokenmill", "np.fromfile", "np.fromfile, as int64")
    for size, of_size in result_of("memory.json")["runs"].items():
        own, fromfile, as_int64 = (f"{of_size[way]['own_mb']:,.0f}" for way in ways)
        cells = (size.replace(" M tokens", " million"), own,
                 f"{of_size['tokenmill']['mapped_mb']:,.0f}", fromfile, as_int64)  # fmt: skip
        assert f"| {' | '.join(cells)} |" in page_of("large.md")


@pytest.mark.skipif(not (RESULTS / "train.json").exists(), reason="bench/train.py was not run")
def test_the_table_of_training_is_the_one_that_was_measured():
    """Of each size: seconds to the first step, share of the time spent waiting, own memory."""
    cells = {}
    for title, run in result_of("train.json")["runs"].items():
        tokens, way = title.split(" tokens, ")
        cells.setdefault(tokens, {})[way] = (
            f"{run['start_seconds']:.1f} s, {run['data_wait']:.2%}, {run['own_memory_mb']:,.0f} MB"
        )
    rows = [f"| {n} | {of['mapped']} | {of.get('in memory', '-')} |" for n, of in cells.items()]

    missing = [row for row in rows if row not in page_of("large.md")]
    assert missing == [], "docs/guides/large.md has no row\n" + "\n".join(missing)
