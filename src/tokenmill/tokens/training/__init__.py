"""A byte-level BPE tokenizer is trained: text becomes words, words become merges, merges files.

words.py            the pieces that a split pattern makes of a text, counted
merges.py           counted words become merges
trained_files.py    merges become `tokenizer.json` and `tokenizer.tiktoken`
"""
