"""Any format to any other.

convert.py          read, write beside the target, compare, rename
repack.py           a tokenmill dataset compressed or unpacked, otherwise the same
document_stream.py  a dataset as one stream in which documents end with the end-of-text id
"""
