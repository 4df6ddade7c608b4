"""Near-duplicates: word_runs.py (what is compared), sketch.py, candidates.py, choose.py (what goes)."""
