"""Files become documents: find, cut into units, read, clean, dedup."""
