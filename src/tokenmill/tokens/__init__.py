"""Texts become ids, and ids become text again. Nothing is fetched from a network.

tokenizer.py        what a tokenizer is here: bytes in, flat arrays out, a state, a fingerprint
load_tokenizer.py   a name or a path -> a tokenizer; a stored state -> the same tokenizer
tiktoken_file.py    `.tiktoken` rank files: gpt2 (bundled), cl100k_base and others
huggingface.py      `tokenizer.json`, encoded by gigatoken where that is exact
begin_token.py      which id begins a document, where one is asked for
tokenizer_json.py   what a `tokenizer.json` says about itself: its form, spellings and cuts
sentencepiece.py    SentencePiece `.model`
bytes_and_chars.py  `bytes`: one id a byte; `chars`: one id a character, learned from the input
encoders/           who turns a text into ids: gigatoken wherever its ids are the right ones
cuts.py             where a text may be cut without changing its ids
training/           words, merges and files of a tokenizer that is trained here
vocabulary.py       the spelling of every id; ids back to text; the hash that names a tokenizer
"""
