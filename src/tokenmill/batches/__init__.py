"""Rows become arrays. Start with loader.py.

loader.py           BatchLoader: the online half in one file, data -> order -> batches
run/                what a loader serves from: data, order, passes
mixture.py          Mixture: several datasets by weight, as the data of a loader
batch.py            Batch: tokens, inputs and targets, and where the rows come from
batch_maker.py      from a step number to arrays, many steps at a time; windows by number
rows/               the kinds of rows: windows, packed documents, one document a row
frames_in_use.py    which frames of compressed shards an order needs at a time
gather.py           copies windows out of the files: the only place where tokens are moved
document_masks.py   document ids, positions, sequence lengths and loss mask of a batch
prefetch.py         one thread that makes batches ahead
state.py            how far a run is, as JSON, and whether a saved state belongs to it
loader_stats.py     what a loader has served, and what a pass leaves out
lookup.py           what was in a step, and when a document comes
"""
