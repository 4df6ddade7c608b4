"""People are told what cleaning does to their text: where it is code, and by examples."""

import gzip
import re

import pytest
from flat import prepare

from tokenmill.base.progress import Progress
from tokenmill.text.cleaning.clean import clean

CODE = "def  twice(x):\n    return  2 * x\n\n\n\nprint(twice(2))\n"
OPTIONS = {"tokenizer": "bytes", "workers": 1, "val_fraction": 0, "clean": True}


class Notes(Progress):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


@pytest.mark.parametrize(
    ("names", "settings", "words"),
    [
        (["a.py", "b.txt"], {"dedup": "lines"}, ["clean=False", 'dedup="documents"']),
        (["a.rs.gz", "b.txt"], {"clean": False, "dedup": "lines"}, ['dedup="documents"']),
        (["a.py", "b.txt"], {"dedup": "none"}, ["clean=False"]),
        (["a.py", "b.txt"], {"dedup": "documents", "clean": False}, None),
        (["a.txt", "b.py"], {}, None),
    ],
)
def test_what_is_done_to_code_is_said_before_and_after(tmp_path, names, settings, words):
    """The first file has more bytes than the second."""
    folder, notes = tmp_path / "in", Notes()
    folder.mkdir()
    for name, text in zip(names, (CODE * 9, CODE), strict=True):
        data = text.encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)

    made = prepare(folder, tmp_path / "out", **{**OPTIONS, **settings}, progress=notes)

    for said in (notes.said, made.notes):
        (found,) = [note for note in said if "source code" in note] or [None]
        assert (found is None) == (words is None)
        assert all(word in found for word in words or ())
        if words:
            assert names[0] in found
            assert ("clean" in found) == ("clean=False" in words)
            assert ("dedup" in found) == ('dedup="documents"' in words)


def test_three_changed_lines_are_shown_as_they_were_and_are(tmp_path):
    (tmp_path / "a.txt").write_text("a good line\n \n" + CODE * 3)

    made = prepare(tmp_path / "a.txt", tmp_path / "out", **OPTIONS)

    pairs = [
        re.fullmatch(r'a\.txt: "(.*)" -> "(.*)"', line).groups() for line in made.changed_lines
    ]
    lines = CODE.splitlines()
    assert [before for before, _ in pairs] == [lines[0], lines[1], lines[0]]
    assert [after.encode() for _, after in pairs] == clean([b.encode() for b, _ in pairs]).texts
    assert made.to_json()["changed_lines"] == made.changed_lines


def test_a_change_far_into_a_line_is_seen(tmp_path):
    (tmp_path / "a.txt").write_text("word " * 100 + "two  blanks" + " word" * 100 + "\n")

    (line,) = prepare(tmp_path / "a.txt", tmp_path / "out", **OPTIONS).changed_lines

    before, after = re.fullmatch(r'a\.txt: "\.\.\.(.*)\.\.\." -> "\.\.\.(.*)\.\.\."', line).groups()
    assert "two  blanks word" in before
    assert "two blanks word" in after


@pytest.mark.parametrize("text", ["  ", "x" * (9 << 20), "caf\u00e9  " * (1 << 20)])
def test_looking_for_them_ends_no_preparation(tmp_path, text):
    (tmp_path / "a.txt").write_text(text + "\n")
    (tmp_path / "b.txt").write_text("a good line\n")

    made = prepare([tmp_path / "a.txt", tmp_path / "b.txt"], tmp_path / "out", **OPTIONS)

    assert len(made.changed_lines) == ("\u00e9" in text)  # one line


@pytest.mark.parametrize(
    ("text", "settings"),
    [(CODE, {"clean": False}), ("nothing to clean\n", {}), ("\x1b[31m" + "x" * 999, {})],
)
def test_lines_that_are_not_changed_are_not_shown_and_long_ones_are_cut(tmp_path, text, settings):
    (tmp_path / "a.txt").write_text(text)

    made = prepare(tmp_path / "a.txt", tmp_path / "out", **{**OPTIONS, **settings})

    assert len(made.changed_lines) == text.startswith("\x1b")
    assert all(len(line) < 200 and line.isprintable() for line in made.changed_lines)
