"""Texts become ids, and ids become text again.

Read tokenizer.py first: what a tokenizer is; then load_tokenizer.py, from a name to one of them.
"""
