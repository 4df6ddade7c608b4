"""Copies of test items: items.py reads them, known_runs.py finds their words, judge.py decides."""
