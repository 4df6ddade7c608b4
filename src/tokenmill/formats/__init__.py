"""Everybody's token files: one class a format, in one file, that claims, reads and writes it.

    engine/        what a format is, which one a path has, what all readers and writers share
    ours.py        our datasets: a manifest that names shards, on a disk or in a bucket
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

To add a format: a class like those here, a line in engine/detect.py, a sample in tests/data and a
class in tests/formats/test_conformance.py.
"""
