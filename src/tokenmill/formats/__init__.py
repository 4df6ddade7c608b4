"""Token files of all projects: one class per format reads and writes it.

Read format.py first: what a format is, and all of them by the signs of their files; then detect.py,
from a path to the shards of a split.
"""
