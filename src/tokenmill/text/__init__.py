"""Files become documents: find them, cut them into units, read and clean these, find duplicates."""
