"""Our own format: ids become files that can be checked. docs/format.md is the specification.

manifest.py  dataset_metadata.json: what a dataset holds, file by file; read strictly
layout.py    which tokens each shard holds, and its name
writer.py    writes one shard with its index, compressed if asked for; gives its entry
block_hashes.py  hashes of blocks, to check a part of a shard in a store
card.py      the README.md of a dataset; writes it and the stored tokenizer
verify.py    reads files, compressed or not, and compares them with the manifest
"""
