"""Texts are cleaned (clean.py), and what was seen before is found (dedup.py)."""
