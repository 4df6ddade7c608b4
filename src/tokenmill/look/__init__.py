"""Look at token data: its contents (inspect.py), its text (show.py), and the faults in it.

Read check.py first: it lists the checks for traps; each is given a sample (token_sample.py).
"""
