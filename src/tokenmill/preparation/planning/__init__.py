"""A preparation before it begins: what is read, by which settings, within which limits.

settings.py          what may change a byte of the result; and Run, which may not
inputs.py            which texts are read
val_inputs.py        which of them are held out as validation sets
plan.py              inputs, settings and units, written down before the work begins
memory_budget.py     workers, chunks and documents that fit into memory
sizes.py             room on the disk, small jobs, and the size of shards
"""
