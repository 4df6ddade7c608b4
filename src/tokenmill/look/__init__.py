"""Look at token data: its contents, its text, and the faults in it.

inspect.py          format, dtype, tokens, documents, tokenizer, splits, how it was made
list_datasets.py    the datasets in a folder, a line each
token_sample.py     tokens spread evenly over a split, bounded
show.py             documents, ranges and the batch of a step as excerpts, with their places
shown_tokens.py     each id as the bytes it stands for, made visible
find_text.py        places of a text
trained_on.py       the steps and checkpoints that trained on a document
tokenizers/         facts about a tokenizer; two of them on the same text
examine.py          opens, samples, runs every check, stops where one trap explains the rest
trap.py             the report of a check
misread.py          header-as-tokens, wrong-dtype, byte-order
shard_files.py      zero-tail, padded-tail, zero-hole, cut-shard, repeated-shard
wrong_tokenizer.py  ids-beyond-vocabulary, one-token, wrong-tokenizer
document_traps.py   missing-end-of-text, doubled-end-of-text, never-shuffled
begin_tokens.py     missing-begin-token, doubled-begin-token
overlap.py          train-val-overlap
check.py            verify: sizes, structure, hashes and traps, of any format
"""
