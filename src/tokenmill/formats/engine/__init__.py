"""What all formats share.

format.py     the Protocol of a format, what it finds in files, what it is asked to write
detect.py     the list of all formats; from a path, a list or a glob to shards
held_out.py   which tokens belong to train, val and test
mirror.py     files in a store, seen as a folder
packed_shards.py  compressed shards of MDS, unpacked into the cache
untrusted.py  careful looks at files that others wrote
writing.py    how a stream of tokens becomes files
"""
