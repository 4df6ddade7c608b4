"""A preparation whose input is a dataset: the same text with other ids.

retokenize.py    the whole of it
token_inputs.py  a dataset as the input: its documents become text again
"""
