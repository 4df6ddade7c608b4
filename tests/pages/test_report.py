"""One file with everything in it, the same for the same data, and right."""

import base64
import hashlib
import json
import re
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from look.build import ALL_FORMATS, EOT, documents, encoded, ours, raw
from pages.conftest import SCRIPT
from pages.read import Read

import tokenmill
from tokenmill.cli import tokenmill as command
from tokenmill.look.inspect import open_splits
from tokenmill.look.token_sample import entropy
from tokenmill.pages.health import QUESTIONS
from tokenmill.pages.plots import vocabulary_map
from tokenmill.pages.report import (
    compression,
    count_ids,
    lengths_of,
    repeated_documents,
    report,
)
from tokenmill.preparation.prepare import prepare
from tokenmill.tokens.load_tokenizer import load


@pytest.fixture(scope="module")
def page(folder) -> str:
    return report(str(folder))


def test_nothing_is_fetched_from_elsewhere(page):
    found = Read(page)

    for _, attributes in found.tags:
        for name in ("src", "href", "action", "data", "srcset", "style"):
            assert (attributes.get(name) or "data:").startswith("data:")
        assert not [name for name in attributes if name.startswith("on")]
    assert "@import" not in page
    assert "url(" not in page


def test_the_policy_allows_exactly_what_is_inside(page):
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)

    for kind in ("style", "script"):
        (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'")


def test_the_same_data_gives_the_same_bytes(page, folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "elsewhere" / "corpus")

    assert report(str(copy)) == page
    assert str(folder.parent) not in page


def test_text_of_a_document_is_never_markup(tmp_path):
    texts = [SCRIPT * 3] * 3 + documents(40, seed=3)
    page = report(str(ours(tmp_path / "script", {"train": encoded(texts)})))

    assert page.count("<script>") == 1
    assert not Read(page).named("img")
    assert "&lt;" in page


def test_small_data_is_counted_exactly(folder, stream, texts):
    splits = open_splits(folder)
    val = np.concatenate([np.append(ids, EOT) for ids in encoded(documents(12, seed=6))])
    both = np.concatenate([stream, val])

    counts = count_ids(splits)
    lengths, all_of_them = lengths_of(splits)

    assert counts.sample is None
    assert counts.by_id.tolist() == np.bincount(both).tolist()
    share = np.bincount(both) / len(both)
    assert entropy(counts.by_id) == pytest.approx(-sum(p * np.log2(p) for p in share if p))
    assert all_of_them
    assert lengths.sum() == len(both)
    assert lengths[: len(texts)].tolist() == [len(ids) + 1 for ids in encoded(texts)]


def test_lengths_are_of_all_splits_or_of_none(folder, tmp_path):
    splits = open_splits(folder)
    np.arange(999, dtype="<u2").tofile(tmp_path / "val.bin")
    splits["more"] = tokenmill.open(tmp_path / "val.bin", "all", dtype="uint16")

    assert lengths_of(splits) is None


def test_what_is_on_the_page_is_so(page, stream):
    text = Read(page).text
    val = np.concatenate([np.append(ids, EOT) for ids in encoded(documents(12, seed=6))])
    counts = np.bincount(np.concatenate([stream, val]))

    assert f"{len(stream) + len(val):,} tokens, 130 documents" in text
    assert f"{counts.max():,} ({counts.max() / counts.sum():.2%})" in text
    used = int((counts > 0).sum())
    assert f"{used:,} of 50,257 ids occur ({used / 50257:.1%})" in text
    assert "evenly spaced sample" not in text
    for question in QUESTIONS:
        assert (question.words in text) == (question.needs != "foreign order")


def test_repeated_documents_are_counted(tmp_path):
    texts = documents(30, seed=4)
    folder = ours(tmp_path / "twice", {"train": encoded([*texts, *texts[:7]])})

    assert repeated_documents(open_splits(folder))[:2] == (7, 37)


def test_what_was_dropped_is_a_note_and_not_good(tmp_path):
    lines = [f"This is line number {n} of a text.\n" for n in range(40)]
    (tmp_path / "a.txt").write_text("".join(lines + lines[:7]))
    for dedup, kind, words in (("lines", "warn", "1 note"), ("none", "good", "good")):
        out = tmp_path / dedup
        prepare(tmp_path / "a.txt", out, dedup=dedup, val_fraction=0, tokenizer="bytes", workers=1)
        page = report(str(out))

        assert f'<span class="mark large {kind}">{words}</span>' in page
        assert ("dropped </b>accounts: 7 lines seen before" in page) == (dedup == "lines")
        assert "All that was read is in the dataset" in page


def test_of_what_was_dropped_duplicates_are_counted_apart(tmp_path):
    rows = [*(f"text {n} of them, all different" for n in range(9)), "", "", "", "", ""]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": row}) + "\n" for row in [*rows, *rows[:2]])
    )
    prepare(tmp_path / "a.jsonl", tmp_path / "out", dedup="documents", tokenizer="bytes", workers=1)

    assert "2 of 16 documents dropped as duplicates" in report(str(tmp_path / "out"))


def test_equal_documents_are_explained_and_shown(tmp_path):
    rows = ["a\nb", "c", "c", "a\nb", "c", *(f"text {n} of them, all different" for n in range(9))]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    for dedup, why in (("lines", "fewer than 16 characters"), ("none", "nothing was compared")):
        out = tmp_path / dedup
        prepare(path, out, dedup=dedup, val_fraction=0, tokenizer="bytes", workers=1)
        _, _, most_often = repeated_documents(open_splits(out))
        page = report(str(out))

        assert [(times, stop - start) for times, _, start, stop in most_often] == [
            (3, 2),
            (2, 4),
        ]
        assert "3 of 14 documents compared are equal to an earlier one, token for token." in page
        assert why in page


def test_bytes_a_token_are_those_of_each_shard(tmp_path):
    texts = [b"aaaa " * 900, "\u4e2d\u6587\n".encode() * 300]
    folder = ours(tmp_path / "d", {"train": encoded(texts[:1]), "val": encoded(texts[1:])})

    parts = compression(open_splits(folder), load("gpt2"))

    assert [name.partition("/")[0] for name, _, _ in parts] == ["train", "val"]
    for (_, num_bytes, num_tokens), text in zip(parts, texts, strict=True):
        assert num_bytes == len(text)
        assert num_tokens == len(load("gpt2").encode_batch([text])[0])


def test_bad_data_is_red(tmp_path):
    folder = ours(
        tmp_path / "bad", {"train": encoded(documents(60)), "val": encoded(documents(60))}
    )

    page = report(str(folder))

    assert "train-val-overlap" in Read(page).text
    assert 'class="mark bad"' in page
    assert "1 fault" in Read(page).text


@pytest.mark.parametrize("name", sorted(ALL_FORMATS))
def test_every_format_has_a_report(tmp_path, docs_of_all, name):
    build, settings = ALL_FORMATS[name]
    folder = build(tmp_path / "data", docs_of_all)

    text = Read(report(str(folder), **settings, tokenizer="gpt2", end_of_text=EOT)).text

    assert "Top tokens" in text
    assert "Half of all tokens" in text
    assert "fault" not in text.split("Document lengths")[0].replace("faults", "")


@pytest.fixture(scope="module")
def docs_of_all():
    return {"train": encoded(documents(200, seed=1)), "val": encoded(documents(20, seed=2))}


def test_without_a_tokenizer_ids_are_shown(tmp_path):
    folder = raw(tmp_path / "raw", {"train": encoded(documents(20))})

    text = Read(report(str(folder), dtype="uint16")).text

    assert "where documents end" in text
    assert "Not known without the tokenizer" in text
    assert re.search(r"<\d+>", text)


def test_the_command_writes_the_file_whole(folder, page, tmp_path):
    out = tmp_path / "page.html"

    done = CliRunner().invoke(command, ["view", str(folder), "--save", str(out)])

    assert done.exit_code == 0, done.output
    assert out.read_text() == page
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("words", ["view {0} --save {1}", "tokenizer compare a b {0} --html {1}"])
def test_a_page_is_refused_before_the_work_where_its_folder_is_missing(folder, tmp_path, words):
    out = tmp_path / "nowhere" / "page.html"

    done = CliRunner().invoke(command, words.format(folder, out).split())

    assert done.exit_code == 2
    assert f"there is no folder {out.parent}; make it first: mkdir -p {out.parent}" in done.output


def test_data_read_with_the_wrong_dtype_is_reported_as_such(tmp_path, docs_of_all):
    folder = raw(tmp_path / "wrong", docs_of_all)

    text = Read(report(str(folder), dtype="uint32", tokenizer="gpt2")).text

    assert "wrong-dtype" in text
    assert "(not asked: see above)" in text


def test_ids_beyond_the_vocabulary_are_shown_as_ids(tmp_path, docs_of_all):
    docs = [np.append(ids, 60_000) for ids in docs_of_all["train"]]
    folder = raw(tmp_path / "beyond", {"train": docs})

    text = Read(report(str(folder), dtype="uint16", tokenizer="gpt2")).text

    assert "ids-beyond-vocabulary" in text
    assert "<60000>" in text


@pytest.mark.parametrize("vocab_size", [1, 100, 1008, 50_257])
def test_the_map_of_the_vocabulary_has_every_id_once(vocab_size):
    counts = np.arange(vocab_size) % 3

    titles = re.findall("<title>(.*?)</title>", str(vocabulary_map(counts, vocab_size)))

    cells = [list(map(int, re.findall(r"\d+", title.replace(",", "")))) for title in titles]
    places = [id for *ids, _, _ in cells for id in range(ids[0], ids[-1] + 1)]
    assert places == list(range(vocab_size))
    assert sum(used for *_, used, _ in cells) == np.count_nonzero(counts)
