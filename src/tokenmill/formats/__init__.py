"""Token files of all projects: one class per format reads and writes it.

format.py says what a format is and lists them; detect.py goes from a path to the shards of a split.
"""
