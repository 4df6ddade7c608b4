"""Page: what the dataset holds, and ways into it."""

from tokenmill.base.human import human_bytes, human_count
from tokenmill.pages.elements.html import join, table, tag
from tokenmill.pages.site.document_list import rows
from tokenmill.pages.site.frame import Page, cards
from tokenmill.pages.site.query import address
from tokenmill.pages.site.routes import View

FIRST = 12


def overview(view: View) -> Page:
    """Counts, splits, tokenizer, how it was made; the first documents."""
    known = view.site.known
    documents = known["documents"]
    per_token = known["bytes_per_token"]
    tokenizer = known["tokenizer"] or {}
    figures = cards(
        ("tokens", human_count(known["tokens"])),
        ("documents", "not counted" if documents is None else human_count(documents)),
        ("bytes a token", "unknown" if per_token is None else f"{per_token:.2f}"),
        ("tokenizer", tokenizer.get("name") or "not named"),
        ("on disk", human_bytes(known["bytes"])),
    )
    splits: list[tuple[object, ...]] = [
        (
            tag("a", name, href=address("documents", {"split": name})),
            split["tokens"],
            "not counted" if split["documents"] is None else split["documents"],
            split["shards"],
            tag("span", f"{split['first_file']} ... {split['last_file']}", class_="place"),
        )
        for name, split in known["splits"].items()
    ]
    listed = view.places.page(FIRST)
    return Page(
        view.site.name,
        join(
            figures,
            table(("split", "tokens", "documents", "shards", "files"), splits),
            tag("h2", f"First {view.places.noun}s of {view.split}"),
            rows(view, listed.extents),
            tag("h2", "How it was made"),
            _made(known),
        ),
    )


def _made(known: dict[str, object]) -> object:
    made = known.get("made")
    facts: list[tuple[object, ...]] = [("format", known["format"]), ("ids", known["dtype"])]
    details = known["details"]
    if isinstance(details, dict):
        facts += [
            (name.replace("_", " "), str(value))
            for name, value in details.items()
            if name != "splits"
        ]
    if isinstance(made, dict):
        facts.append(("sources", f"{made['sources']:,} files, {made['source_bytes']:,} bytes"))
        for part in ("settings", "books"):
            facts += [(name.replace("_", " "), str(value)) for name, value in made[part].items()]
    return table((), facts, class_="facts")
