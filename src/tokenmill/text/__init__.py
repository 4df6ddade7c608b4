"""Files become documents: find, cut into units, read, clean, dedup."""

from tokenmill.text.clean import clean, join_edge
from tokenmill.text.read import Chunk, Edge, ReadRules, read_unit
from tokenmill.text.sources import Found, Source, find_sources, search
from tokenmill.text.units import Unit, cut_into_units

__all__ = [
    "Chunk",
    "Edge",
    "Found",
    "ReadRules",
    "Source",
    "Unit",
    "clean",
    "cut_into_units",
    "find_sources",
    "join_edge",
    "read_unit",
    "search",
]
