"""One small dataset for all trainers, with documents and the splits train and val."""

import pytest
from small_corpus import write_corpus

import tokenmill


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    tokenmill.prepare(write_corpus(folder / "text", documents=60), folder / "data", workers=1)
    return folder / "data"
