"""Near-duplicates: what is compared (word_runs.py), with what (sketch.py, candidates.py), what goes
(choose.py).
"""
