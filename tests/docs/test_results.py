"""Numbers on our pages are those of the results that they come from."""

import json
import re

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
    """MB of each way, then the seconds to the first batch of the mapped way and of int64."""
    ways = ("tokenmill", "np.fromfile", "np.fromfile, as int64")
    for size, of_size in result_of("memory.json")["runs"].items():
        own, fromfile, as_int64 = (f"{of_size[way]['own_mb']:,.0f}" for way in ways)
        first = ", ".join(f"{of_size[way]['first_s']:.2f} s" for way in (ways[0], ways[2]))
        cells = (size.replace(" tokens", ""), own, f"{of_size['tokenmill']['mapped_mb']:,.0f}",
                 fromfile, as_int64, first)  # fmt: skip
        assert f"| {' | '.join(cells)} |" in page_of("large.md")


def test_the_table_of_training_is_the_one_that_was_measured():
    """Of each size: the share of the time spent waiting, and own memory."""
    cells = {}
    for title, run in result_of("train.json")["runs"].items():
        tokens, way = title.split(" tokens, ")
        cells.setdefault(tokens, {})[way] = (
            f"{run['data_wait']:.3%}, {run['own_memory_mb']:,.0f} MB"
        )
    rows = [f"| {n} | {of['mapped']} | {of.get('in memory', '-')} |" for n, of in cells.items()]

    missing = [row for row in rows if row not in page_of("large.md")]
    assert missing == [], "docs/guides/large.md has no row\n" + "\n".join(missing)


@pytest.mark.parametrize("page", ["large.md", "training.md"])
def test_the_benchmark_that_a_page_names_finds_its_place_in_it(page):
    """Each writes below a comment; what stands there now is one paragraph or one table."""
    text = (ROOT / "docs" / "guides" / page).read_text(encoding="utf-8")
    named = re.findall(r"<!-- bench/results/(\w+)\.json -->\n\n(?=[|\w])", text)

    assert len(named) == text.count("<!-- bench/results/") > 0
    for name in named:
        code = (ROOT / "bench" / f"{name}.py").read_text(encoding="utf-8")
        assert f'into_page.put("{page}", "{name}.json"' in code
