"""Files become documents: find them, cut them into units, read and clean these, find duplicates.

inputs/     which files are the input, what they are, and how they are opened and cut into units
reading/    a unit becomes chunks of documents, one reader for each kind of file
cleaning/   the rules of cleaning, the lines of texts, and what was seen before
"""

from tokenmill.text.cleaning.clean import clean, join_edge
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.sources import find_sources
from tokenmill.text.inputs.units import Unit, cut_into_units
from tokenmill.text.reading.chunks import Chunk, Edge, ReadRules
from tokenmill.text.reading.read import read_unit

__all__ = [
    "Chunk",
    "Edge",
    "ReadRules",
    "Source",
    "Unit",
    "clean",
    "cut_into_units",
    "find_sources",
    "join_edge",
    "read_unit",
]
