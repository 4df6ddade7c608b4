"""Look at token data: its contents, its text, and the faults in it.

inspect.py             format, dtype, tokens, documents, tokenizer, splits, how it was made
show.py                documents, ranges and the batch of a step as excerpts, with their places
find_text.py           places of a text
trained_on.py          the steps and checkpoints that trained on a document
tokenizer_facts.py     `tokenizer show`: family, engine, ids, pattern
compare_tokenizers.py  `tokenizer compare`: bytes per token, tokens per word by script, speed
text_scripts.py        texts cut where their script changes
check.py               verify: sizes, structure, hashes, and every check for traps, of any format
token_sample.py        tokens spread evenly over a split, bounded; the report of a check
misread.py             header-as-tokens, wrong-dtype, byte-order
shard_files.py         zero-tail, padded-tail, zero-hole, cut-shard, repeated-shard
wrong_tokenizer.py     ids-beyond-vocabulary, one-token, wrong-tokenizer
document_traps.py      missing or doubled end-of-text and begin tokens, never-shuffled
overlap.py             train-val-overlap
"""
