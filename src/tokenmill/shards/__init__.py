"""Our own format: ids become files that can be checked. docs/format.md is the specification.

manifest.py  dataset_metadata.json: what a dataset holds, file by file; read strictly
own_hash.py  the hash that a manifest has of itself
layout.py    which tokens each shard holds, and its name
writer.py    writes one shard with its index, and gives its entry in the manifest
card.py      the README.md of a dataset; writes it and the stored tokenizer
verify.py    compares what is on disk with the manifest
"""
