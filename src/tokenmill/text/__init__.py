"""Files become documents: find, cut into units, read, clean, dedup."""

from tokenmill.text.cleaning.clean import clean, join_edge
from tokenmill.text.inputs.sources import Found, Source, find_sources, search
from tokenmill.text.inputs.units import Unit, cut_into_units
from tokenmill.text.reading.read import Chunk, Edge, ReadRules, read_unit

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
