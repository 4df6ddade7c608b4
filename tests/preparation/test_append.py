"""Adding to a dataset: its shards are not touched, and it is known what they hold."""

import json
import signal

import pytest
import xxhash
from flat import prepare
from preparation import oracle
from preparation.oracle import accounts_of, hashes_of_files, read_dataset
from preparation.runs import assert_nothing_stray, run
from system_faults import REMOVALS, RENAMES, injecting, needs_strace

from tokenmill.conversion.convert import convert
from tokenmill.errors import (
    BadInputError,
    PrepareError,
    SettingsMismatchError,
    TokenizerMismatchError,
)


def write_rows(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


def numbered(first, last):
    return [
        f"Document number {n} of the collection.\nIt has two lines, {n}."
        for n in range(first, last)
    ]


@pytest.mark.parametrize("dedup", ["lines", "documents", "none"])
def test_append_is_what_an_oracle_makes_of_both(small, tmp_path, dedup):
    tokenizer, encode = small
    end = int(tokenizer["end_of_text"])
    first, second = numbered(0, 200), [*numbered(150, 160), *numbered(300, 330), *numbered(0, 3)]
    out = tmp_path / "out"
    rules = {"dedup": dedup, "val_fraction": 0.2}
    a, b = write_rows(tmp_path / "a.jsonl", first), write_rows(tmp_path / "b.jsonl", second)
    prepare(a, out, workers=1, tokens_per_shard=700, **rules, **tokenizer)
    before = hashes_of_files(out)
    summary = prepare(b, out, workers=1, append=True, dedup=dedup)
    after = hashes_of_files(out)
    for name, digest in before.items():
        if name not in ("dataset_metadata.json", "README.md"):
            assert after[name] == digest
    # One oracle run over both gives the documents; those of each split in the order of adding.
    splits, accounts = oracle.expected(
        first + second, encode, end, clean=False, min_chars=16, long_line=8 << 20, **rules
    )
    found = read_dataset(out)
    assert {name: sorted(map(tuple, docs)) for name, docs in found.items()} == {
        name: sorted(map(tuple, docs)) for name, docs in splits.items()
    }
    for name in splits:
        assert found[name] == splits[name]
    assert {name: accounts_of(out)[name] for name in accounts} == accounts
    assert summary.documents_in == summary.documents_written + sum(summary.dropped.values())
    manifest = json.loads((out / "dataset_metadata.json").read_bytes())
    assert [source["name"] for source in manifest["sources"]] == ["a.jsonl", "b.jsonl"]
    numbers = sorted(int(name[-9:-4]) for name in after if name.endswith(".bin"))
    assert numbers == list(range(len(numbers)))  # numbering continues
    assert_nothing_stray(out)


def test_what_was_converted_has_accounts_once_something_is_added(small, tmp_path):
    tokenizer, _ = small
    first = write_rows(tmp_path / "a.jsonl", numbered(0, 30))
    prepare(first, tmp_path / "prepared", workers=1, val_fraction=0, **tokenizer)
    convert(tmp_path / "prepared", tmp_path / "out", to="tokenmill")
    assert accounts_of(tmp_path / "out") == {}

    added = write_rows(tmp_path / "b.jsonl", numbered(30, 40))
    summary = prepare(added, tmp_path / "out", workers=1, append=True)

    accounts = accounts_of(tmp_path / "out")
    assert (summary.documents_in, accounts["documents_written"]) == (40, 40)
    assert accounts["tokens_written"] == summary.train_tokens + summary.val_tokens


def test_few_documents_keep_to_the_split_by_hash(small, tmp_path):
    """Ten documents alone would be split at the end of the axis; not so here."""
    tokenizer, encode = small
    out = tmp_path / "out"
    a = write_rows(tmp_path / "a.jsonl", numbered(0, 200))
    b = write_rows(tmp_path / "b.jsonl", numbered(500, 510))
    prepare(a, out, workers=1, val_fraction=0.2, dedup="none", **tokenizer)
    prepare(b, out, workers=1, append=True)
    in_val = {tuple(ids) for ids in read_dataset(out)["val"]}
    for text in numbered(500, 510):
        ids = encode(text)
        digest = xxhash.xxh3_128_digest(b"".join(n.to_bytes(4, "little") for n in ids))
        held_out = int.from_bytes(digest[8:], "little") < 0.2 * 2**64
        assert ((*ids, int(tokenizer["end_of_text"])) in in_val) == held_out


def test_the_same_again_and_nothing_new(small, tmp_path):
    out = tmp_path / "out"
    a = write_rows(tmp_path / "a.jsonl", numbered(0, 20))
    b = write_rows(tmp_path / "b.jsonl", numbered(5, 10))
    prepare(a, out, workers=1, dedup="lines", **small[0])
    before = hashes_of_files(out)
    with pytest.raises(SettingsMismatchError, match="the input is in"):
        prepare(a, out, workers=1, append=True)
    with pytest.raises(PrepareError, match="nothing is left to write of 5 documents"):
        prepare(b, out, workers=1, append=True)
    assert hashes_of_files(out) == before
    assert_nothing_stray(out)


@pytest.mark.parametrize(
    ("dedup", "became", "written"),
    [("none", "added once more", 50), ("lines", "lines that it holds are dropped", 30)],
)
def test_inputs_that_seem_to_be_in_already_are_named(small, tmp_path, dedup, became, written):
    out, folder = tmp_path / "out", tmp_path / "folder"
    folder.mkdir()
    part = write_rows(folder / "part.jsonl", numbered(0, 20))
    prepare(part, out, workers=1, dedup=dedup, **small[0])
    write_rows(folder / "z.jsonl", numbered(30, 40))
    summary = prepare(folder, out, workers=1, append=True)
    assert summary.documents_written == written
    (note,) = [note for note in summary.notes if "already" in note]
    assert "1 of 2 inputs" in note
    assert "'part.jsonl'" in note
    assert became in note


def test_another_file_of_the_same_name_and_size_can_be_added_under_another_name(small, tmp_path):
    out = tmp_path / "out"
    prepare(write_rows(tmp_path / "part.jsonl", numbered(10, 20)), out, workers=1, **small[0])
    other = tmp_path / "other"
    other.mkdir()
    part = write_rows(other / "part.jsonl", numbered(30, 40))
    with pytest.raises(SettingsMismatchError, match=r"such as 'part\.jsonl'") as refused:
        prepare(part, out, workers=1, append=True)
    assert "rename it" in refused.value.hint
    summary = prepare(part.rename(other / "second.jsonl"), out, workers=1, append=True)
    assert summary.documents_written == 20
    assert [note for note in summary.notes if "already" in note] == []


@pytest.mark.parametrize(
    "other", [{"tokens_per_shard": 5}, {"val_fraction": 0.5}, {"dtype": "uint32"}]
)
def test_what_must_stay_as_it_was(small, tmp_path, other):
    out = tmp_path / "out"
    prepare(write_rows(tmp_path / "a.jsonl", numbered(0, 20)), out, workers=1, **small[0])
    b = write_rows(tmp_path / "b.jsonl", numbered(30, 40))
    with pytest.raises(SettingsMismatchError, match=next(iter(other))):
        prepare(b, out, workers=1, append=True, **other)
    with pytest.raises(TokenizerMismatchError, match=r"small\.tiktoken"):
        prepare(b, out, workers=1, append=True, tokenizer="bytes")
    assert_nothing_stray(out)


def test_the_tokenizer_is_that_of_the_dataset(small, tmp_path):
    """Its file need not be there any more; where it is named, it must be the same."""
    out, tokenizer = tmp_path / "out", small[0]
    prepare(write_rows(tmp_path / "a.jsonl", numbered(0, 5)), out, workers=1, **tokenizer)
    b, c = (write_rows(tmp_path / f"{n}.jsonl", numbered(n, n + 5)) for n in (30, 60))
    prepare(b, out, workers=1, append=True, dtype="uint16")
    prepare(c, out, workers=1, append=True, **tokenizer)
    assert accounts_of(out)["documents_written"] == 15


def test_characters_that_are_not_in_the_vocabulary(tmp_path):
    out = tmp_path / "out"
    a, b, c = (tmp_path / f"{name}.txt" for name in "abc")
    a.write_text("abcdefgh ijklmnop\n")
    b.write_text("a deal of old maps\n".replace("s", ""))
    c.write_text("an unknown \u00e9\n")
    prepare(a, out, workers=1, tokenizer="chars")
    prepare(b, out, workers=1, append=True)
    before = hashes_of_files(out)
    with pytest.raises(BadInputError, match=r"c\.txt") as refused:
        prepare(c, out, workers=1, append=True)
    assert refused.value.source == "c.txt"
    assert hashes_of_files(out) == before
    b.write_text("an old hop\n")  # another attempt is not refused because of the first
    prepare(b, out, workers=1, append=True)
    assert_nothing_stray(out)


def test_bad_input_leaves_the_dataset_open_to_others(tmp_path):
    out = tmp_path / "out"
    a, b, c = (tmp_path / f"{name}.txt" for name in "abc")
    a.write_text("a text that is in the dataset\n")
    b.write_bytes(b"bad \xff text\n")
    c.write_text("a text that is to be added\n")
    prepare(a, out, workers=1, tokenizer="bytes")
    before = hashes_of_files(out)
    with pytest.raises(BadInputError, match=r"b\.txt"):
        prepare(b, out, workers=1, append=True)
    assert hashes_of_files(out) == before
    prepare(c, out, workers=1, append=True)
    b.write_bytes(b"good text, at last\n")
    prepare(b, out, workers=1, append=True)
    assert accounts_of(out)["documents_written"] == 3


@needs_strace
def test_killed_while_adding(small, tmp_path):
    tokenizer = small[0]
    a = write_rows(tmp_path / "a.jsonl", numbered(0, 60))
    b = write_rows(tmp_path / "b.jsonl", numbered(40, 130))
    for out in ("out", "untouched"):
        prepare(a, tmp_path / out, workers=1, tokens_per_shard=700, **tokenizer)
    old = hashes_of_files(tmp_path / "untouched")
    prepare(b, tmp_path / "untouched", workers=1, append=True, unit_bytes=2000)
    new = hashes_of_files(tmp_path / "untouched")
    out = tmp_path / "out"
    wanted = {"inputs": b, "out_dir": out, "workers": 1, "append": True, "unit_bytes": 2000}
    for number in (1, 4, 9, 16, 12, 13, 14, 15):
        code, errors = run(wanted, injecting(f"signal=SIGKILL:when={number}", RENAMES))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        found = {k: v for k, v in hashes_of_files(out).items() if k in old}
        changed = {k for k in old if found[k] != old[k]}
        assert changed <= {"README.md", "dataset_metadata.json"}
    else:
        code, errors = run(wanted)
    assert (code, errors) == (0, "")
    assert hashes_of_files(out) == new
    assert_nothing_stray(out)


@needs_strace
def test_killed_after_the_manifest_was_written(small, tmp_path):
    """All that was left to do is to clean up: the same command does it, and is content."""
    out, untouched = tmp_path / "out", tmp_path / "untouched"
    a = write_rows(tmp_path / "a.jsonl", numbered(0, 20))
    b = write_rows(tmp_path / "b.jsonl", numbered(30, 50))
    for folder in (out, untouched):
        prepare(a, folder, workers=1, **small[0])
    prepare(b, untouched, workers=1, append=True)
    wanted = {"inputs": b, "out_dir": out, "workers": 1, "append": True}
    plan = out / ".preparation" / "plan.json"
    killing = [*injecting("signal=SIGKILL", REMOVALS), "-P", str(plan)]  # the last to be removed
    assert run(wanted, killing)[0] == -signal.SIGKILL
    assert plan.exists()
    assert not (out / ".preparation" / "units").exists()
    assert (out / "dataset_metadata.json").read_bytes() == (
        untouched / "dataset_metadata.json"
    ).read_bytes()
    summary = prepare(b, out, workers=1, append=True)
    assert summary.documents_written == 40
    assert hashes_of_files(out) == hashes_of_files(untouched)
    assert_nothing_stray(out)
