"""Which window or row comes when: integers in, integers out, no files.

windows.py          where the windows of one axis of tokens are, and the phase that moves them
permutation.py      the keyed permutation of range(n): computed, invertible, never stored
simple_orders.py    `sequential`, `shuffle` and `random`
blocks.py           `blocks`: shuffled, but in long reads, for cold disks and remote storage
source_order.py     one source: sample number -> epoch, position, window, first token; and back
document_pieces.py  documents cut into pieces that fit into a row, numbered by length
recipes.py          which pieces share a row: best-fit decreasing over a histogram of lengths
row_order.py        one source in rows of documents: sample number -> row -> pieces; and back
shares.py           dividing samples by weight so that every prefix is right
mixture_order.py    a mixture: sample number -> source and sample of that source; and back
sample_order.py     the order of a run, for one source or a mixture; its fingerprint
step_share.py       which samples of a step a rank takes
"""
