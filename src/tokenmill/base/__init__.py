"""Tools for every room; nothing here knows of text, tokens or datasets."""
