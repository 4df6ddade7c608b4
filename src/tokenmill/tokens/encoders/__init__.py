"""Who turns a text into ids: gigatoken wherever its ids are the right ones.

split_patterns.py      published split patterns: their names, how they are written, gigatoken's code
fast_forms.py          the forms of a `tokenizer.json` that gigatoken has
sentencepiece_form.py  the SentencePiece models that gigatoken has
same_ids.py            texts of many scripts, and the first one on which two encoders differ
gigatoken.py           the fast encoder, with its memory bounded
slow_ranks.py          tiktoken, for patterns that gigatoken does not know
newer_characters.py    texts with characters that only gigatoken knows go to the package
number_runs.py         the pattern that takes numbers in pairs, by a pattern that takes three
library_failures.py    what a library raises, also a panic in Rust, is one of our errors
"""
