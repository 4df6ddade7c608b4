"""Rules that remove documents, or change them, each for a reason that can be shown.

Read rule.py first: it says what a rule is. rule_chain.py applies several of them in order.
"""
