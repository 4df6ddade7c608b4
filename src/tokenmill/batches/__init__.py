"""Spans become arrays. Start with loader.py.

loader.py            BatchLoader: the online half in one file, data -> order -> reader -> batches
batch_form.py        BatchForm: how batches look and are made ready
run.py               what a loader serves from: data, order, and the reader that is chosen for both
passes.py            where the passes of a loader with `epochs` begin and end, and what was served
mixture.py           Mixture: several datasets by weight, as the data of a loader
batch_maker.py       from a step number to arrays, many steps at a time
batch.py             Batch: tokens, inputs and targets, and where the rows come from (Located)
id_check.py          ids that a batch must not hold
padding.py           begin tokens and padding, in rows of documents
window_documents.py  where documents begin in windows: by the end-of-text id, or by an index
document_masks.py    document ids, positions, sequence lengths and loss mask of a batch
window_source.py     samples by their numbers, as a plain sequence
prefetch.py          one thread that makes batches ahead
state.py             how far a run is, as JSON; a state of another run is refused
lookup.py            from a step to its tokens, from tokens to their steps
"""

from tokenmill.batches.batch_form import BatchForm as BatchForm
