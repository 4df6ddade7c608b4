"""tokenmill's own format: ids become files that can be checked. format.md specifies it.

manifest.py says what a dataset holds, file by file; writer.py writes one shard with its index.
"""
