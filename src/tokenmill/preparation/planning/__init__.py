"""A preparation before it begins: what is read, by which settings, within which limits.

settings.py          what may change a byte of the result; and Run, which may not
inputs.py            which texts are read
val_inputs.py        which of them are held out as validation sets
plan.py              inputs, settings and units, written down before the work begins
limits.py            what fits into the memory, onto the disk and into a manifest
"""
