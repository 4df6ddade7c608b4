"""Commands that look at a dataset and change nothing.

inspect.py   what it holds and how it was made
show.py      its text: documents, windows, batches
verify.py    whether it is whole, unchanged and sound
view.py      pages to browse it, or one page in a file
"""
