"""A preparation before it begins: what is read, by which settings, within which limits."""
