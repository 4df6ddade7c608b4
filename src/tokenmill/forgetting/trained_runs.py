"""Which steps and checkpoints of a run had trained on documents that are forgotten."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from tokenmill.forgetting.chosen_documents import with_ids
from tokenmill.look.trained_on import trained_on
from tokenmill.train.run_data import open_run


def trained_run(folder: str, ids: Collection[str]) -> dict[str, Any]:
    """Say when a run trained on the documents with these ids, and from where it can be replayed.

    They are looked for in all of its sources, also in copies of the dataset.
    """
    run = open_run(Path(folder))
    documents = []
    not_searched = []
    had: set[str] = set()
    for name, data in zip(run.loader.names, run.loader.datasets, strict=True):
        if not data.has_index:
            not_searched.append(name)
            continue
        for number, key in with_ids(data, ids).items():
            found = trained_on(document=number, source=name, **run._asdict())
            steps = sorted({visit.step for visit in found.visits})
            documents.append({"id": key, "source": name, "document": number, "steps": steps})
            had |= {name for name, is_trained in found.checkpoints.items() if is_trained}
    steps = sorted({step for document in documents for step in document["steps"]})
    unaffected = [name for name in run.checkpoints if name not in had]
    return {
        "run": folder,
        "documents": documents,
        "steps": steps,
        "checkpoints": [name for name in run.checkpoints if name in had],
        "replay_from": unaffected[-1] if unaffected and steps else None,
        "not_searched": not_searched,
    }
