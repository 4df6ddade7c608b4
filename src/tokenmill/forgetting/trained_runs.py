"""Which steps and checkpoints of a run had trained on documents that are forgotten."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from tokenmill.forgetting.chosen_documents import with_ids
from tokenmill.look.trained_on import trained_on
from tokenmill.train.run_data import open_run


def trained_run(folder: str, ids: Collection[str]) -> dict[str, Any]:
    """Say when a run trained on the documents with these ids, and from where it can be replayed.

    They are looked for in all of its sources that have an index, also in copies of the dataset.
    """
    run = open_run(Path(folder))
    searched = {
        n: d for n, d in zip(run.loader.names, run.loader.datasets, strict=True) if d.has_index
    }
    found = [
        trained_on(document=number, source=name, **run._asdict())
        for name, data in searched.items()
        for number in with_ids(data, ids)
    ]
    had = {name for each in found for name, is_trained in each.checkpoints.items() if is_trained}
    steps = sorted({visit.step for each in found for visit in each.visits})
    unaffected = [name for name in run.checkpoints if name not in had]
    return {
        "run": folder,
        "searched": list(searched),
        "steps": steps,
        "checkpoints": [name for name in run.checkpoints if name in had],
        "replay_from": unaffected[-1] if unaffected and steps else None,
    }
