"""Near-duplicates: words.py what is compared, sketch.py and candidates.py which texts, choose.py what goes."""
