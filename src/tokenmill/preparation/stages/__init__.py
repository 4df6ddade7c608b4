"""The stages of a preparation, a task at a time; the order is in prepare.py.

unpack.py          large compressed files become text that can be cut into units
unit_text.py       the text of units as it is encoded; here as it is in its files; its characters
token_inputs.py    the documents of a dataset: one that is the input, or that is added to
cleaned_text.py    the same, cleaned and without repeated lines; every line is hashed; examples
duplicates.py      which lines or documents were seen before
parts.py           encoded documents on disk, between encoding and the shards
long_documents.py  documents that are read in pieces: one part each, encoded in parallel
encode.py          the documents of a unit become ids; the list of all parts
decide.py          train, val or dropped, for every document; the layout of the shards
assemble.py        documents are copied into shards, or all ids of a text into one .npy
accounts.py        what went in and what became of it; the summary for people
commit.py          tokenizer, card and manifest are written
"""
