"""One unit of one source becomes chunks of documents, in bounded memory.

Read read.py first, which has the law that all readers obey; then chunks.py, what they give.
"""
