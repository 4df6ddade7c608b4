"""tests/oldest.txt has the floor of every dependency that `make oldest` can install."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Too large to install a second time, or without an old version for the CPU alone; and the oldest
# huggingface-hub, which the oldest tokenizers does not take.
LEFT_OUT = {"torch", "lightning", "ray", "tensorboard", "wandb", "tokenmill", "huggingface-hub"}


def floors():
    """Name and smallest version of each dependency, as pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [
        *project["dependencies"],
        *(d for name in extras if name not in ("dev", "docs") for d in extras[name]),
    ]
    for words in needed:
        name = re.match(r"[\w.-]+", words)[0].replace("_", "-")
        if name not in LEFT_OUT:
            yield name, re.search(r">=([\d.]+)", words)[1]


def test_the_oldest_versions_are_the_floors():
    lines = [line for line in (ROOT / "tests" / "oldest.txt").read_text().split() if "==" in line]
    oldest = dict(line.split("==") for line in lines)

    assert oldest.keys() == {name for name, _ in floors()}
    for name, floor in floors():
        assert re.fullmatch(rf"{re.escape(floor)}(\.0)*", oldest[name]), (name, floor)
