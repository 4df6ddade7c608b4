"""Near-duplicates: words.py (what is compared), sketch.py, candidates.py, choose.py (what goes)."""
