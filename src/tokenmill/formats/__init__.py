"""Everybody's token files: one class per format, in one file, that reads and writes it.

    format.py      what a format is, and all formats by the signs of their files
    detect.py      from a path, a list or a glob to the shards of a split
    held_out.py    which tokens belong to train, val and test
    untrusted.py   careful looks at files that others wrote
    not_tokens.py  what a file is that is refused, and what to do with it
    ours.py        tokenmill's datasets: a manifest that names shards
    ours_writer.py  the same, written by a conversion
    remote.py      datasets in a store: by their manifest, or through a mirror
    writing.py     how a stream of tokens becomes files
    samples.py     what MDS and litdata share
    llmc.py        llm.c, modded-nanogpt, FineWeb-Edu shards: a header with a magic number
    nanogpt.py     raw ids without a header
    npy.py         numpy's arrays
    dolma.py       dolma, OLMo: ids without a header though named .npy, and a table of documents
    megatron.py    Megatron, gpt-neox: a .bin with an .idx
    datatrove.py   datatrove: a .ds with an index and metadata
    mds.py         MosaicML Streaming: samples with columns, perhaps compressed
    litdata.py     litdata in token mode: chunks of items
    litpkds.py     lit-gpt, TinyLlama; read only
    modalities.py  Modalities' .pbin; read only

To add a format: a module with a `FORMAT` like those here, a sign in format.py, a sample in
tests/data and a class in tests/formats/test_conformance.py.
"""
