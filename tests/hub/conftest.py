import numpy as np
import pytest
from hub.fake_hub import fake_hub

from tokenmill.hub import Retry

REPO = "karpathy/fineweb-edu-100B-gpt2-token-shards"
TOKEN = "hf_SecretOfAnn123456"
QUICK = Retry(attempts=4, first_wait=0.01, longest_wait=0.02, timeout=5.0)


def llmc_shard(seed: int, num_tokens: int = 4000, *, claims: int | None = None) -> bytes:
    """A shard as llm.c writes it."""
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, num_tokens if claims is None else claims
    ids = np.random.default_rng(seed).integers(0, 50257, num_tokens).astype("<u2")
    ids[0] = 50256
    return header.tobytes() + ids.tobytes()


@pytest.fixture
def hub(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf_home"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    # Set where a test before this one imported the package while it was offline.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with fake_hub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        yield server


@pytest.fixture
def shards(hub):
    """The default repository: a validation shard, five for training, a card."""
    files = {f"edu_fineweb_train_{n:06d}.bin": llmc_shard(n) for n in range(1, 6)}
    files["edu_fineweb_val_000000.bin"] = llmc_shard(0)
    files["README.md"] = b"# FineWeb-Edu tokens\n"
    files["folder/small.json"] = b"{}"
    hub.commit(REPO, files)
    return files
