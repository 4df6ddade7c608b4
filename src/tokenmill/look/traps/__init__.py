"""The traps of token files, each by its name, with the evidence and the fix.

examine.py          opens, samples, runs every check, stops where one trap explains the rest
trap.py             what a check reports
misread.py          header-as-tokens, wrong-dtype, byte-order
shard_files.py      zero-tail, padded-tail, zero-hole, cut-shard, repeated-shard
wrong_tokenizer.py  ids-beyond-vocabulary, one-token, wrong-tokenizer
document_traps.py   missing-end-of-text, doubled-end-of-text, never-shuffled
begin_tokens.py     missing-begin-token, doubled-begin-token
overlap.py          train-val-overlap
"""
