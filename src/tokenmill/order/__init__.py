"""Which tokens come when: sample numbers in, spans out, no files.

spans.py            Spans: runs of tokens, and where each goes in the rows of a batch
order.py            Order: what every order can be asked; SourceOrder, that of one source
order_settings.py   from the settings of a run to the order of a source
permutation.py      the keyed permutation of range(n): computed, invertible, never stored
window_order.py     windows of one source as rows: `sequential`, `shuffle` and `random`
blocks.py           `blocks`: shuffled, but in long reads, for cold disks and remote storage
document_pieces.py  documents cut into pieces that fit into a row, numbered by length
recipes.py          which pieces share a row: best-fit decreasing over a histogram of lengths
row_order.py        rows of whole documents of one source
mixture_order.py    a mixture deals samples by weight to the orders of its sources
step_share.py       which samples of a step a rank takes
"""
