import pytest
from look.build import documents, encoded


@pytest.fixture(scope="package")
def docs():
    """Two splits of different documents, as ids of gpt2."""
    return {"train": encoded(documents(400, seed=1)), "val": encoded(documents(40, seed=2))}
