"""Needs of a preparation, known before it starts.

memory_budget.py  workers, chunks and documents that fit into memory
disk_space.py     room on the disk
shard_count.py    how many shards there will be, and how large
estimate.py       tokens, size and time, from one percent of the input
"""
