"""Tokenizers: what is in one, and two side by side on a text.

tokenizer_facts.py     `tokenizer show`: family, engine, ids, pattern
text_scripts.py        texts cut where their script changes
compare_tokenizers.py  `tokenizer compare`: bytes a token, tokens a word by script, speed
"""
