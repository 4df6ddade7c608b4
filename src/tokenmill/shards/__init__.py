"""Our own format: ids become files that can be checked. docs/format.md is the specification.

entries.py   what a manifest says about one file, shard, split, tokenizer or source
manifest.py  dataset_metadata.json: what a dataset holds, file by file; read strictly
layout.py    which tokens each shard holds, and its name
packed.py    reads a shard and its index, compressed or not
writer.py    writes one shard with its index, compressed if asked for; gives its entry
block_hashes.py  hashes of blocks, to check a part of a shard in a store
card.py      the README.md of a dataset; writes it and the stored tokenizer
verify.py    compares what is there with the manifest
"""
