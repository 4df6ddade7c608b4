"""Text of tokens: what is shown is what was written, and nothing in it can move the terminal."""

import json

import numpy as np
import pytest
from look import build
from look.build import EOT, joined

import tokenmill
from tokenmill.base.human import one_line, visible
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.lookup import place_of
from tokenmill.cli import main
from tokenmill.dataset import from_array
from tokenmill.errors import FormatError, TokenmillError
from tokenmill.look.find_text import find
from tokenmill.look.show import (
    EDGE,
    NEWLINE,
    SPACE,
    render,
    show_document,
    show_ids,
    show_step,
    show_tokens,
)
from tokenmill.tokens.load_tokenizer import load

TEXTS = {"train": build.documents(60, seed=7), "val": build.documents(5, seed=8)}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    docs = {name: build.encoded(texts) for name, texts in TEXTS.items()}
    return build.ours(tmp_path_factory.mktemp("show") / "d", docs, tokens_per_shard=3000)


@pytest.fixture(scope="module")
def data(path):
    return tokenmill.open(path)


def text_of(excerpt) -> bytes:
    return b"".join(piece.data for piece in excerpt.tokens if not piece.special)


@pytest.mark.parametrize("number", [0, 1, 17, 59])
def test_a_document_is_shown_as_its_text(data, number):
    excerpt = show_document(data, number)

    assert text_of(excerpt) == TEXTS["train"][number]
    assert [piece.special for piece in excerpt.tokens].count(True) == 1
    assert excerpt.tokens[-1].data == b"<|endoftext|>"
    assert (excerpt.place.document, excerpt.place.document_offset) == (number, 0)


def test_a_long_document_is_cut_and_says_by_how_much(data):
    whole = show_document(data, 3)

    excerpt = show_document(data, 3, limit=5)

    assert len(excerpt.tokens) == 5
    assert excerpt.left_out == len(whole.tokens) - 5


def test_every_place_is_named_by_file_document_and_offset(data):
    """Against a plain count over the documents."""
    docs = build.encoded(TEXTS["train"])
    owner = np.concatenate([np.full(len(d) + 1, i) for i, d in enumerate(docs)])
    inside = np.concatenate([np.arange(len(d) + 1) for d in docs])
    for position in range(0, len(owner), 997):
        spot = place_of(data, position)

        assert spot.file == f"train/shard_{position // 3000:05d}.bin"
        assert spot.offset == position % 3000
        assert (spot.document, spot.document_offset) == (owner[position], inside[position])


def test_the_batch_of_a_step_is_shown_row_by_row(data):
    loader = BatchLoader(data, batch_size=3, block_size=64, seed=5, rank=1, world_size=2)

    rows = list(show_step(loader, 4))

    expected = loader.batch(4).tokens
    shown = np.array([[token.id for token in row.tokens] for row in rows])
    np.testing.assert_array_equal(shown, expected)
    for number, row in enumerate(rows):
        place = loader.locate(4, number, 0)
        assert (row.place.file, row.place.offset) == (place.file, place.offset)
        assert row.title.startswith(f"step 4, rank 1, row {number} (sample ")


@pytest.mark.parametrize("kind", ["packed", "documents"])
def test_rows_of_documents_are_shown_without_padding(data, path, capsys, kind):
    loader = BatchLoader(data, batch_size=3, block_size=400, rows=kind)
    batch = loader.batch(2)

    rows = list(show_step(loader, 2))
    run("batch", path, 2, "--rows", kind, "--batch_size", 3, "--block_size", 400, "--json")

    printed = json.loads(capsys.readouterr().out)
    for number, row in enumerate(rows):
        held = batch.segments[number] >= 0
        assert [token.id for token in row.tokens] == batch.tokens[number][held].tolist()
        assert [token["id"] for token in printed[number]["tokens"]] == [t.id for t in row.tokens]
        count = int(batch.segments[number].max()) + 1
        assert f": {count} document{'s' * (count > 1)}, {(~held).sum()} of padding" in row.title
        assert row.place == place_of(data, int(batch.starts[number]))


def test_one_row_of_a_step_can_be_asked_for(data):
    loader = BatchLoader(data, batch_size=3, block_size=64)

    whole = list(show_step(loader, 0))
    for row in range(3):
        assert list(show_step(loader, 0, row=row)) == [whole[row]]
    with pytest.raises(ValueError, match="row is 3; the batch has rows 0 to 2"):
        list(show_step(loader, 0, row=3))


@pytest.mark.parametrize(("start", "stop"), [(5, 5), (-1, 3), (0, 10**9)])
def test_ranges_outside_the_data_are_refused_with_its_size(data, start, stop):
    with pytest.raises(ValueError, match=rf"the split has {data.num_tokens:,} tokens"):
        show_tokens(data, start, stop)


def test_a_document_that_is_not_there_is_refused_with_their_number(data):
    with pytest.raises(ValueError, match="has no document 60; it has 60, from 0"):
        show_document(data, 60)


# What reaches the terminal

NASTY = "a\x1b[2J\x07\x9b31m\u202e\u2028\x00b\u200bc\x7f"


def test_control_characters_are_written_out():
    assert visible(NASTY) == ("a\\x1b[2J\\x07\\x9b31m\\u202e\\u2028\\x00b\\u200bc\\x7f")
    assert one_line("a\nb\tc") == "a\\nb\\tc"
    assert visible("r\u00e9sum\u00e9 \u4f60\u597d") == "r\u00e9sum\u00e9 \u4f60\u597d"


@pytest.mark.parametrize("color", [False, True])
def test_nothing_in_a_document_can_move_the_terminal(color):
    gpt2 = load("gpt2")
    ids, _ = gpt2.encode_batch([NASTY.encode() * 3])

    shown = render(show_ids(np.asarray(ids), gpt2), color=color)

    import re

    ours = re.sub(r"\x1b\[(0|1;41;97|48;5;\d+;38;5;\d+)m", "", shown)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in ours)


def test_edges_of_tokens_and_white_space_are_visible():
    gpt2 = load("gpt2")
    ids, _ = gpt2.encode_batch([b"Hello world\n\tok"])

    shown = render(show_ids(np.append(ids, EOT), gpt2), color=False)

    assert shown.startswith(f"Hello{EDGE}{SPACE}world{EDGE}{NEWLINE}\n{EDGE}")
    assert shown.endswith(f"{EDGE}[[<|endoftext|>]]")


def test_a_character_over_two_tokens_is_shown_as_bytes():
    gpt2 = load("gpt2")
    ids, _ = gpt2.encode_batch(["\U0001f9c1".encode()])

    pieces = show_ids(np.asarray(ids), gpt2)

    assert b"".join(piece.data for piece in pieces) == "\U0001f9c1".encode()
    assert all(piece.text.startswith("\\x") for piece in pieces)


def test_without_a_tokenizer_ids_are_shown():
    pieces = show_ids(np.array([5, 7]), None, end_of_text_id=7)

    assert [(p.text, p.special) for p in pieces] == [("<5>", False), ("<end of text 7>", True)]


def test_an_id_outside_the_vocabulary_is_loud():
    pieces = show_ids(np.array([11, 60_000]), load("gpt2"))

    assert [(p.text, p.special) for p in pieces] == [(",", False), ("<60000>", True)]


# Finding


def occurrences(text: str) -> list[int]:
    """By plain search in the joined text: how many, in which document."""
    return [i for i, doc in enumerate(TEXTS["train"]) for _ in range(doc.count(text.encode()))]


@pytest.mark.parametrize(
    "text",
    [
        "Printed at the mill",  # in every document
        "Page 7.33.",
        "of this page may be sold without flour",
        "mill",  # no place to cut inside: found by decoding
        "intable",  # not there
        "llin",
        "flour in return.\n",
    ],
)
def test_a_text_is_found_wherever_it_is(data, text):
    found = [data.document_at(match.start) for match in find(data, text)]

    assert found == occurrences(text)
    for match in find(data, text):
        assert text in data.decode(data.tokens(match.start, match.stop))


def test_long_passages_are_found_by_their_ids(data):
    passage = TEXTS["train"][20].decode()[40:160]

    assert [data.document_at(m.start) for m in find(data, passage)] == [20]


def test_a_text_across_the_edges_of_blocks_is_found(data, monkeypatch):
    monkeypatch.setattr("tokenmill.look.find_text.BLOCK_TOKENS", 64)
    monkeypatch.setattr("tokenmill.look.find_text.DECODE_TOKENS", 50)
    for text in ("Nothing of this page may be sold", "sold"):
        found = [data.document_at(match.start) for match in find(data, text)]

        assert found == occurrences(text)


def test_finding_needs_a_text_and_a_tokenizer(data):
    with pytest.raises(ValueError, match="is empty"):
        list(find(data, ""))
    with pytest.raises(TokenmillError, match="names the tokenizer"):
        list(find(from_array([1, 2, 3]), "a"))


# The command


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["show", *map(str, args)])
    return int(stop.value.code or 0)


def test_the_command_shows_a_document_with_its_place(path, capsys):
    assert run("document", path, 2, "--split", "val") == 0

    out = capsys.readouterr().out
    assert out.startswith("--- document 2: ")
    assert "; document 2, token 0]" in out.splitlines()[0]
    assert out.rstrip().endswith("[[<|endoftext|>]]")


def test_the_command_shows_the_split_that_open_opens(path, tmp_path, capsys):
    assert run("text", path, "no text has this") == 1
    assert "not found in train" in capsys.readouterr().err
    shard = next((path / "val").glob("*.bin"))
    whole = np.fromfile(shard, "<u2")
    whole.tofile(tmp_path / "corpus.bin")

    # No split is named by the file: all of it, not the first nine tenths.
    assert run("tokens", tmp_path / "corpus.bin", f"0:{len(whole)}", "--dtype", "uint16") == 0
    assert f"tokens 0 to {len(whole):,}" in capsys.readouterr().out


def test_plain_text_is_the_text(path, capsys):
    assert run(path, 2, "--plain", "--limit", 5000) == 0

    assert capsys.readouterr().out == TEXTS["train"][2].decode() + "\n"


def test_the_command_shows_the_batch_of_a_step(path, data, capsys):
    args = ["--rank", 1, "--world-size", 2, "--batch-size", 2, "--block-size", 32]
    assert run("batch", path, 3, *args, "--seed", 9, "--json") == 0

    rows = json.loads(capsys.readouterr().out)
    loader = BatchLoader(data, batch_size=2, block_size=32, seed=9, rank=1, world_size=2)
    shown = np.array([[token["id"] for token in row["tokens"]] for row in rows])
    np.testing.assert_array_equal(shown, loader.batch(3).tokens)


def test_the_command_finds_text_and_exits_1_when_there_is_none(path, capsys):
    assert run("text", path, "Page 7.33.") == 0
    out = capsys.readouterr().out
    assert "document 33, token" in out

    assert run("text", path, "no such words here") == 1
    assert capsys.readouterr().err == "not found in train\n"


@pytest.mark.parametrize("text", ["12", "a:b", "5:3:1"])
def test_a_range_that_is_none_is_misuse(path, capsys, text):
    assert run("tokens", path, text) == 2


def test_a_mistyped_subcommand_is_misuse(path, capsys):
    assert run("tokns", path, "0:5") == 2
    assert "Subcommands" not in capsys.readouterr().out


def test_raw_data_without_a_tokenizer_is_shown_as_ids(tmp_path, capsys):
    file = tmp_path / "train.bin"
    file.write_bytes(joined(build.encoded(TEXTS["val"])).astype("<u2").tobytes())

    assert run("tokens", file, "0:3", "--dtype", "uint16") == 0
    assert capsys.readouterr().out.count("<") == 3
    with pytest.raises(FormatError, match="where documents end"):
        show_document(tokenmill.open(file, dtype="uint16"), 0)
