"""The elements of pages: HTML, plots, numbers, documents found with bounded work.

html.py            tables, cards and whole pages, tokens in colour, the packaged files
plots.py           inline SVG
open_splits.py     a dataset opened for looking: every split, one tokenizer
find_documents.py  documents and their lengths, with bounded work
report_numbers.py  the numbers of a report, from a bounded sample
health.py          the checks of verify in green and red
"""
