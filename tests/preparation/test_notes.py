"""People are told what cleaning does to their text: where it is code, and by examples."""

import gzip
import re

import pytest
from flat import prepare, retokenize

from tokenmill.base.progress import Progress
from tokenmill.cli import main
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


def test_lines_that_are_dropped_are_shown_by_the_first_of_them(tmp_path, capsys):
    long = "a line that is very long " * 9
    lines = ["All rights reserved.", "one", long, "two", "All rights reserved.", long, "three"]
    (tmp_path / "a.txt").write_text("\n".join([*lines, "one", "two", "three"]) + "\n")
    settings = {**OPTIONS, "clean": False, "dedup": "lines"}

    made = prepare(tmp_path / "a.txt", tmp_path / "out", **settings, dedup_min_chars=1)

    assert made.lines_dropped == 5
    assert made.repeated_lines == ['"All rights reserved."', f'"{long[:60]}..."', '"one"']
    assert prepare(tmp_path / "a.txt", tmp_path / "all", **OPTIONS).repeated_lines == []
    command = ["prepare", str(tmp_path / "a.txt"), "-o", str(tmp_path / "again")]
    command += ["--dedup", "lines", "--dedup_min_chars", "1", "--tokenizer", "bytes"]
    with pytest.raises(SystemExit, match="0"):
        main(command)
    said = capsys.readouterr().err
    assert '  lines     dropped 5 seen before, such as "All rights reserved.", "a line' in said


def test_a_tokenizer_that_its_package_encodes_is_noted_by_every_door(tmp_path, small):
    """Ten times slower: also callers who show no progress learn it."""
    pytest.importorskip("tiktoken")
    (tmp_path / "a.txt").write_text("2026 was a good year")
    slow = {**small[0], "token_pattern": r"\p{L}+|[^\p{L}]", "workers": 1, "val_fraction": 0}
    said = Notes()

    made = prepare(tmp_path / "a.txt", tmp_path / "slow", **slow, progress=said)
    fast = prepare(tmp_path / "a.txt", tmp_path / "fast", tokenizer="gpt2", val_fraction=0)
    again = {name: slow[name] for name in ("tokenizer", "end_of_text", "token_pattern")}
    turned = retokenize(tmp_path / "fast", tmp_path / "turned", workers=1, **again)

    for notes in (said.said, made.notes, turned.notes):
        assert any("is encoded by the package tiktoken: gigatoken" in note for note in notes)
    assert not any("gigatoken" in note for note in fast.notes)


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


SPECIAL = "<|endoftext|>"


def test_a_special_token_that_a_text_spells_out_is_said_everywhere_with_the_cure(tmp_path, capsys):
    """By prepare, pretokenize and the compat classes; `train` reads a text as these do."""
    from tokenmill.compat import GPTDataLoader, StreamingDataset
    from tokenmill.preparation.pretokenize import pretokenize

    text = tmp_path / "stories.txt"
    text.write_text(f"Once upon a time.{SPECIAL}There was a mill.\n" * 50)
    spelled = re.escape(SPECIAL)
    pattern = f"kept as text: 50 times '{spelled}', a special token; .* separator=\"{spelled}\""

    made = prepare(text, tmp_path / "out", workers=1)
    assert any(re.search(pattern, note) for note in made.notes)
    with pytest.warns(UserWarning, match=pattern):
        StreamingDataset(text, 16, tokenizer="gpt2")
    loader = GPTDataLoader({"block_size": 8, "batch_size": 2}, "gpt2")
    with pytest.warns(UserWarning, match=pattern):
        loader.prepare_data(text.read_text())
    notes = Notes()
    pretokenize(text, progress=notes)
    assert any(re.search(pattern, said) for said in notes.said)
    with pytest.raises(SystemExit):
        main(["prepare", str(text), "-o", str(tmp_path / "cli")])
    assert f"pass --separator '{SPECIAL}' to" in capsys.readouterr().err

    cured = prepare(text, tmp_path / "cured", workers=1, separator=SPECIAL)
    assert not any("special token" in note for note in cured.notes)
