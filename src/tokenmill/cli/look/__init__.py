"""Commands that look at a dataset and change nothing.

inspect.py   what it holds and how it was made
show.py      its text: documents, windows, batches
verify.py    whether its files are what they should be
doctor.py    what is wrong with it, by name
report.py    one HTML page about it
view.py      pages to browse it
"""
