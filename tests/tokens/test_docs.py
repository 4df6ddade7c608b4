"""What tokenizers.md and format.md show is true: the code runs, the example is read."""

import json
import re
from pathlib import Path

import numpy as np
import xxhash
from manifests import signed

from tokenmill.shards.manifest import Manifest
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.vocabulary import PROBE

DOCS = Path(__file__).parents[2] / "docs"


def test_the_code_in_the_page_on_tokenizers_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = (DOCS / "guides" / "tokenizers.md").read_text()

    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(code, {})


def test_the_manifest_in_the_specification_is_one():
    text, *_ = re.findall(
        r"```json\n(\{\n.*?)```", (DOCS / "reference" / "format.md").read_text(), re.S
    )

    assert text.endswith(',\n  "xxh3_128": "..."\n}\n')
    text = text.replace(',\n  "xxh3_128": "..."\n}', "\n}").replace("...", "0" * 32)
    manifest = Manifest.parse(signed(json.loads(text)))

    assert manifest.tokenizer.fingerprint == load("gpt2").fingerprint
    written = json.loads(manifest.to_bytes())
    assert written.pop("xxh3_128")
    assert written == json.loads(text)


def test_the_fingerprint_is_made_as_the_specification_says():
    tokenizer = load("bytes")
    spellings = [bytes([b]) for b in range(256)] + [b""]
    probe = np.frombuffer(PROBE, np.uint8).astype("<u4")
    parts = [
        np.array([257, len(probe)], "<u8").tobytes(),
        np.arange(257, dtype="<u8").tobytes(),
        np.array([len(s) for s in spellings], "<u8").tobytes(),
        b"".join(spellings),
        probe.tobytes(),
    ]

    assert tokenizer.fingerprint == xxhash.xxh3_128_hexdigest(b"".join(parts))
