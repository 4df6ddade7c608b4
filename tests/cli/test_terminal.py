"""Nothing that a file holds, or is called, reaches the terminal as a command to it."""

import io
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from look import build

from tokenmill.cli import main
from tokenmill.shards.manifest import Manifest, SourceEntry

NASTY = "a\x1b[2J\x07\x9b31m\u202eb"  # clears the screen, rings, turns the direction of text
NOT_PRINTED = set("\x1b\x07\x9b\u202e")


def run(*args):
    with pytest.raises(SystemExit) as stop:
        main([*map(str, args)])
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A dataset whose folder, tokenizer, sources and settings are called so, and other files."""
    folder = tmp_path_factory.mktemp("terminal")
    dataset = build.ours(folder / f"d{NASTY}", {"train": build.encoded([NASTY.encode()] * 9)})
    manifest = Manifest.load(dataset)
    replace(
        manifest,
        sources=(SourceEntry(NASTY, 1, 1),),
        settings={NASTY: NASTY, "dedup": NASTY},
        accounts={},
        tokenizer=replace(manifest.tokenizer, name=NASTY),
    ).write(dataset)
    (dataset / f"extra{NASTY}.txt").touch()
    (folder / f"{NASTY}.txt").write_text("Some text. " * 40 + NASTY)
    (folder / f"{NASTY}.jsonl").write_text('{"text": "a"}\n{"te\\u001bxt": 1}\n')
    np.arange(999, dtype="<u2").tofile(folder / f"{NASTY}.bin")
    (folder / f"cut{NASTY}.npy").write_bytes(b"\x93NUMPY\x01\x00")
    return folder


COMMANDS = {
    "inspect": ["inspect", "{d}"],
    "inspect a file": ["inspect", "{x}.bin"],
    "show": ["show", "{d}"],
    "show --plain": ["show", "{d}", "--plain"],
    "show --ids": ["show", "tokens", "{d}", "0:9", "--ids"],
    "show text": ["show", "text", "{d}", NASTY],
    "verify": ["verify", "{d}"],
    "verify a file": ["verify", "{cut}"],
    "verify raw ids": ["verify", "{x}.bin"],
    "view --save": ["view", "{d}", "--save", "{out}.html"],
    "convert": ["convert", "{d}", "{out}", "--to", "npy"],
    "convert what is cut": ["convert", "{cut}", "{out}", "--to", "npy"],
    "prepare": ["prepare", "{x}.txt", "-o", "{out}", "--tokenizer", "bytes"],
    "prepare bad rows": ["prepare", "{x}.jsonl", "-o", "{out}", "--on_bad_input", "skip"],
    "prepare what has no field": ["prepare", "{x}.jsonl", "-o", "{out}", "--text_field", NASTY],
    "prepare what is missing": ["prepare", "{x}.gone", "-o", "{out}"],
    "prepare --append": ["prepare", "{x}.txt", "-o", "{d}", "--append", "--dedup", "none"],
    "prepare --estimate": ["prepare", "{x}.txt", "-o", "{out}", "--estimate"],
    "prepare with a file as tokenizer": ["prepare", "{x}.txt", "-o", "{out}", "--tokenizer", "{x}"],
    "pretokenize": ["pretokenize", "{x}.txt"],
    "upload": ["upload", "{x}.bin", NASTY],
    "an unknown command": [NASTY],
    "a bad value": ["inspect", "{d}", "--dtype", NASTY],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_control_characters_are_written_out(corpus, tmp_path, capsys, command):
    names = {
        "d": corpus / f"d{NASTY}",
        "x": corpus / NASTY,
        "cut": corpus / f"cut{NASTY}.npy",
        "out": tmp_path / NASTY,
    }

    code = run(*(part.format(**names) for part in COMMANDS[command]))

    said = "".join(capsys.readouterr())
    assert not NOT_PRINTED & set(said), said
    assert "\\x1b" in said or code == 0, said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_that_is_not_utf8_ends_no_command(tmp_path, monkeypatch, encoding):
    text = "na\u00efve \u4e2d\u6587 \U0001f33e"
    folder = build.ours(tmp_path / "caf\u00e9 \u4e2d", {"train": build.encoded([text.encode()])})
    for command in (["show"], ["show", "--plain"], ["inspect"], ["verify"]):
        shown = io.TextIOWrapper(io.BytesIO(), encoding)
        monkeypatch.setattr(sys, "stdout", shown)

        assert run(command[0], folder, *command[1:]) == 0

        shown.flush()
        said = shown.buffer.getvalue().decode(encoding)
        assert ("\\u4e2d" in said) == (command[0] in ("show", "inspect"))


def test_the_command_itself_in_the_c_locale(tmp_path):
    folder = build.ours(tmp_path / "d", {"train": build.encoded(["\u4e2d na\u00efve".encode()])})
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    done = subprocess.run(
        [sys.executable, "-m", "tokenmill", "show", folder, "--plain"],
        capture_output=True,
        env={**os.environ, **plain, "PYTHONIOENCODING": "ascii"},
    )

    assert (done.returncode, done.stdout) == (0, b"\\u4e2d na\\xefve\n"), done.stderr
