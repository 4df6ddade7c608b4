"""Samples that may be documents, or rows cut from a stream of them (MDS, litdata).

Both formats keep samples, and neither says what a sample is. Projects that pack tokens write rows
of one length; projects that write documents do not. So: samples of one length are rows, and
documents are known only by an end-of-text id; samples of different lengths are documents. A
dataset written by tokenmill says it in the index, under the key "tokenmill", which the other
readers pass over.
"""

import numpy as np

from tokenmill.base.strict_json import Reader

KEY = "tokenmill"


def are_documents(index: Reader, lengths: np.ndarray) -> bool:
    """Whether samples are documents, by the index or by the lengths of those in the first shard."""
    if KEY in index.names():
        return index.object(KEY).text("samples", among=("documents", "rows")) == "documents"
    return len(lengths) < 2 or bool((lengths != lengths[0]).any())
