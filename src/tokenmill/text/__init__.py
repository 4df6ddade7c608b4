"""Files become documents: find them, cut them into units, read and clean these, find duplicates.

inputs/     which files are the input, what they are, and how they are opened and cut into units
reading/    a unit becomes chunks of documents, one reader for each kind of file
cleaning/   the rules of cleaning, the lines of texts, and what was seen before
"""
