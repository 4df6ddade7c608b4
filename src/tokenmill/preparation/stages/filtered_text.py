"""The text of units after its rules, in this order: map, clean, mask, filters."""

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from tokenmill.base.human import one_line
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.stages.unit_text import read_chunks
from tokenmill.text.filters.map_function import MapError, MapRule, folder_of
from tokenmill.text.filters.rule import Rule, load_filter
from tokenmill.text.filters.rule_chain import RuleChain
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.reading.chunks import Chunk
from tokenmill.text.reading.kept_facts import ORIGIN

MAP_FOLDER = "map-folder"
"""File of the workspace: where the module of the user's function is."""
_SHOWN = 60  # bytes of a document, in an error


def filtered_chunks(plan: Plan, unit: int) -> Iterator[Chunk]:
    """Read one unit, number its documents, and apply the rules of the plan to them."""
    rules = rules_of_plan(plan)
    sources = plan.sources_of(unit)
    names = [source.name for source in sources]
    has_paths = all(is_document(source, plan.settings) for source in sources)
    read: dict[int, int] = {}  # texts of each file in earlier chunks
    num_texts = 0
    for chunk in read_chunks(plan, unit):
        chunk.numbers = np.arange(num_texts, num_texts + len(chunk.texts), dtype=np.uint32)
        num_texts += len(chunk.texts)
        if len(names) == 1:
            chunk.texts_by_source = {0: num_texts}
        counts = {file: n - read.get(file, 0) for file, n in chunk.texts_by_source.items()}
        files = np.repeat(list(counts), list(counts.values())).tolist()
        try:
            paths = {"path": [names[file] for file in files]} if has_paths else {}
            yield rules.apply(chunk, {**paths, **fields_of(chunk)}, first=not read)
        except MapError as error:
            if (at := error.position) is not None:
                number = files[:at].count(files[at]) + read.get(files[at], 0)
                start = plan.units[unit].start if len(names) == 1 else 0
                error.source = names[files[at]]
                where = f" of the part from {start:,} on" if start else ""
                text = chunk.texts[at][:_SHOWN].decode("utf-8", "ignore")
                error.message = (
                    f"{error.source}, document {number + 1:,}{where}: {error.message}; the "
                    f'document begins with "{one_line(text)}"'
                )
            raise
        read.update(chunk.texts_by_source)


def is_document(source: Source, settings: Settings) -> bool:
    """Return True if a file is one document, and its name therefore the path of the document."""
    is_whole = settings.document_is == "file" and settings.separator is None
    return is_whole and source.kind == "text"


def fields_of(chunk: Chunk) -> dict[str, list[Any]]:
    """The fields that are kept with the documents of a chunk, by name."""
    fields: dict[str, list[Any]] = {}
    for batch in chunk.kept.batches if chunk.kept is not None else ():
        for name in batch.schema.names[len(ORIGIN) :]:
            fields.setdefault(name, []).extend(batch.column(name).to_pylist())
    return fields


def rules_of_plan(plan: Plan) -> RuleChain:
    """The rules of a preparation, loaded once per process."""
    folder = ""
    if plan.settings.map is not None:
        folder = os.fsdecode(plan.workspace.read(MAP_FOLDER))
    return load_rules(plan.settings, folder)


def load_rules(settings: Settings, folder: str = ".") -> RuleChain:
    """The rules that settings ask for; a user's function is also looked for in `folder`."""
    asked = (settings.map, settings.clean, settings.mask, settings.filter)
    return _load(*asked, orjson.dumps(settings.filter_config), folder)


@lru_cache(maxsize=1)
def _load(
    function: str | None,
    clean: bool,
    mask: str | None,
    filters: str | None,
    config: bytes,
    folder: str,
) -> RuleChain:
    rules: list[Rule] = []
    if function is not None:
        rules.append(MapRule.load(function, (folder,)))
    if clean:
        from tokenmill.text.filters.clean_rule import CleanRule

        rules.append(CleanRule())
    if mask is not None:
        from tokenmill.text.filters.mask import Mask, kinds_of

        rules.append(Mask(kinds_of(mask)))
    thresholds = orjson.loads(config)
    names = filters.split(",") if filters else []
    return RuleChain([*rules, *(load_filter(name, thresholds[name]) for name in names)])


def keep_map_folder(plan: Plan) -> None:
    """Note where the function of `map` was imported from: workers look there, too."""
    assert isinstance(plan.settings.map, str)
    load_rules(plan.settings)
    folder = os.fsencode(folder_of(plan.settings.map))
    plan.workspace.keep(MAP_FOLDER, folder)
