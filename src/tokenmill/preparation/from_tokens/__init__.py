"""A preparation whose input is a dataset: the same text with other ids.

retokenize.py    the preparation
token_inputs.py  a dataset as the input: its documents become text again
"""
