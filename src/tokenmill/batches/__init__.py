"""Windows become arrays: gather, documents, state, prefetch, loader."""
