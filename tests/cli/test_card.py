"""The command on a dataset's card makes the same dataset again, byte for byte."""

import os
import re
import subprocess
import sys
from pathlib import Path

import flat
import orjson
import pytest

ROOT = Path(__file__).parents[2]
LINES = [f"line {i % 70} of a text with numbers {i * i} and words" for i in range(400)]


def write_inputs(folder):
    (folder / "a.txt").write_text("\r\n".join(LINES) + "\n\n\n\nmore  text\n")
    (folder / "b c.txt").write_text("<|end|>".join("\n".join(LINES[i::7]) for i in range(7)))
    (folder / "long.txt").write_text("\n".join(line * 9 for line in LINES))
    (folder / "bad.txt").write_bytes(b"good text\n\xff\xfe bad text\n" * 20)
    rows = [orjson.dumps({"body": "\n".join(LINES[i : i + 9])}) for i in range(0, 390, 3)]
    (folder / "rows.jsonl").write_bytes(b"\n".join(rows))
    quoted = [f'{i},"{LINES[i]}\n{LINES[i + 1]}, ""quoted"""' for i in range(200)]
    (folder / "table.csv").write_text("id,body\n" + "\n".join(quoted) + "\n")


CASES = {
    "as it is": (["a.txt"], {}),
    "another tokenizer": (["a.txt", "b c.txt"], {"tokenizer": "bytes", "val_fraction": 0.0}),
    "long lines": (["long.txt"], {"long_line": 300, "tokenizer": "bytes"}),
    "a separator": (["b c.txt"], {"separator": "<|end|>", "dedup": "documents"}),
    "a separator with a newline": (["a.txt"], {"separator": "\n\n"}),
    "cleaned": (["a.txt"], {"clean": True, "dedup": "lines"}),
    "short lines": (
        ["a.txt"],
        {"dedup": "lines", "dedup_min_chars": 90, "document_is": "paragraph"},
    ),
    "JSON lines": (["rows.jsonl"], {"text_field": "body", "tokens_per_shard": 5000}),
    "CSV": (["table.csv"], {"text_field": "body", "dtype": "uint32"}),
    "bad input": (["bad.txt"], {"on_bad_input": "replace", "document_is": "line"}),
    "learned characters": (["a.txt", "rows.jsonl"], {"tokenizer": "chars", "text_field": "body"}),
}


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("case", CASES)
def test_the_command_on_the_card_makes_the_same_bytes(tmp_path, monkeypatch, case):
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    inputs, settings = CASES[case]
    flat.prepare(inputs, "first", workers=1, **settings)

    card = (tmp_path / "first" / "README.md").read_text()
    (command,) = re.findall(r"```console\n(tokenmill prepare .*)\n```", card)
    assert command.count(" -o OUT") == 1
    again = command.replace(" -o OUT", " -o again --workers 1 --quiet")
    script = f'tokenmill() {{ "{sys.executable}" -m tokenmill "$@"; }}\n{again}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, f"{again}\n{done.stderr}"
    assert contents(tmp_path / "again") == contents(tmp_path / "first")
    for name, value in settings.items():  # the card names what is not the default
        assert name in command, f"{name}={value!r}"
