"""Documents become ids: the tokenizer protocol, loading one by name, encoding.

protocol.py      what a tokenizer is here: flat arrays in and out, a state, a fingerprint
load.py          a name or a path -> a tokenizer; a stored state -> the same tokenizer
ranks.py         `.tiktoken` rank files: gpt2 (bundled), cl100k_base and its relatives
raw.py           `bytes`: one id a byte
chars.py         `chars`: one id a character, learned from the input
huggingface.py   `tokenizer.json`; bytelevel.py reads what the file says about itself
pieces.py        SentencePiece `.model`
gigatoken.py     the fast encoder under ranks.py and huggingface.py, with its cache bounded
cuts.py          where a text may be cut without changing its ids
vocabulary.py    the spelling of every id, and ids back to text
text.py          bytes that must be UTF-8
fingerprint.py   one hash that tells two tokenizers apart
"""
