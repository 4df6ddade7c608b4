"""Texts become ids, and ids become text again. Nothing is fetched from a network.

tokenizer.py           what a tokenizer is here: bytes in, flat arrays out, a state, a fingerprint
load_tokenizer.py      a name or a path -> a tokenizer; a stored state -> the same tokenizer
tiktoken_file.py       `.tiktoken` rank files: gpt2 (bundled), cl100k_base and others
huggingface.py         `tokenizer.json`, encoded by gigatoken where that is exact
tokenizer_json.py      what a `tokenizer.json` says about itself: spellings, cuts, its fast form
sentencepiece.py       SentencePiece `.model`
bytes_and_chars.py     `bytes`: one id a byte; `chars`: one id a character, learned from the input
split_patterns.py      published split patterns: their names, how they are written, gigatoken's code
same_ids.py            tokenizers with two encoders, and the proof that both give the same ids
gigatoken.py           the fast encoder, with its memory bounded
split_alike.py         gigatoken made to split as the packages do: newer characters, numbers
cuts.py                where a text may be cut without changing its ids
words.py               the pieces that a split pattern makes of a text, counted
merges.py              counted words become merges, and merges the files of a tokenizer
vocabulary.py          the spelling of every id; ids back to text; the hash that names a tokenizer
"""
