"""The functions for `--map` in examples/ do what they say."""

import importlib.util
import json
import runpy
import sys
from pathlib import Path

import pytest
from flat import prepare

from tokenmill.text.filters.mapped import Documents

EXAMPLES = Path(__file__).parents[2] / "examples"
GOOD = ["the cat sat on the mat and was happy", "a dog ran over the hill in the sun"]
BAD = ["buy cheap pills now click here", "click now cheap cheap offer buy buy"]


def test_a_linear_classifier_is_trained_and_used_in_workers(tmp_path, monkeypatch):
    for name, texts in {"good.txt": GOOD, "bad.txt": BAD}.items():
        (tmp_path / name).write_text("\n".join(texts))
    source = (EXAMPLES / "map_quality.py").read_text()
    script = tmp_path / "map_quality.py"
    script.write_text(source)
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "good.txt"), str(tmp_path / "bad.txt")])
    runpy.run_path(str(script), run_name="__main__")
    (weights,) = tmp_path.glob("quality-*.npy")
    script.write_text(source.replace("quality-NONE.npy", weights.name))
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = [{"text": text} for text in ["the happy dog sat", "cheap pills here", *GOOD, *BAD]]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))

    summary = prepare(
        tmp_path / "in.jsonl", tmp_path / "out", tokenizer="bytes", map="map_quality:good"
    )

    sys.modules.pop("map_quality")
    assert summary.documents_written == 3
    assert summary.dropped == {"map: low score": 3}


def test_py3langid_tells_languages():
    pytest.importorskip("py3langid")
    spec = importlib.util.spec_from_file_location("map_language", EXAMPLES / "map_language.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    english = "The quick brown fox jumps over the lazy dog, and nobody knows why."
    german = "Der schnelle braune Fuchs springt über den faulen Hund, und niemand weiß warum."

    found = module.english(Documents([english, german], {}))

    assert found.texts == [english, None]
    assert found.reasons == [None, "language de"]
    assert found.values[0] > 0.9
