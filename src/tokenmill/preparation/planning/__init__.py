"""A preparation before it begins: what is read, by which settings, within which limits.

settings.py          what may change a byte of the result; and Run, which may not
inputs.py            which texts are read
val_inputs.py        which of them are held out as validation sets
shard_count.py       how many shards there will be, and how large
plan.py              inputs, settings and units, written down before the work begins
memory_budget.py     workers, chunks and documents that fit into memory
disk_space.py        room on the disk
"""
