"""docs/reference/format.md gives the probe text and the fingerprint exactly, without our code."""

import json
import re
import struct
from pathlib import Path

import xxhash

from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.vocabulary import PROBE

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "format.md").read_text(encoding="utf-8")


def probe_of_the_page():
    (found,) = re.findall(r"^```json\n(\[.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return "".join(json.loads(found)).encode()


def test_the_probe_text_of_the_page_is_ours():
    assert probe_of_the_page() == PROBE
    assert f"it has {len(PROBE)} bytes" in PAGE


def test_the_fingerprint_of_bytes_as_the_page_describes_it():
    probe = probe_of_the_page()
    spellings = [bytes([byte]) for byte in range(256)] + [b""]
    hashed = struct.pack("<QQ", len(spellings), len(probe))
    hashed += struct.pack("<257Q", *range(257))
    hashed += struct.pack("<257Q", *map(len, spellings))
    hashed += b"".join(spellings) + struct.pack(f"<{len(probe)}I", *probe)

    fingerprint = xxhash.xxh3_128_hexdigest(hashed)

    assert fingerprint == load("bytes").fingerprint
    assert f"The fingerprint of `bytes` is `{fingerprint}`" in PAGE
    assert f"that of `gpt2` is `{load('gpt2').fingerprint}`" in PAGE
