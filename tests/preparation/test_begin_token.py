"""`prepare --begin_token`: one before every document, recorded, and never two."""

import json

import numpy as np
import pytest
from flat import prepare
from manifests import rewrite, signed
from preparation.oracle import hashes_of_files, read_dataset
from special_tokens import BEGIN, END, write_tokenizer

import tokenmill
from tokenmill.errors import BadInputError, FormatError, PrepareError, SettingsMismatchError
from tokenmill.shards.manifest import Manifest
from tokenmill.shards.verify import verify


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return str(write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"))


def numbered(first, last):
    return [
        f"Document number {n} of the collection.\nIts second line, {n}." for n in range(first, last)
    ]


def write_rows(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


def with_begin(documents):
    return [[BEGIN, *ids] for ids in documents]


@pytest.fixture
def both(tmp_path, tokenizer):
    """The same text prepared without a begin token and with one."""
    rows = write_rows(tmp_path / "a.jsonl", [*numbered(0, 200), *numbered(5, 9)])
    rules = {"workers": 1, "tokenizer": tokenizer, "val_fraction": 0.2, "dedup": "documents"}
    for name, more in {"plain": {}, "begun": {"begin_token": "<s>"}}.items():
        prepare(rows, tmp_path / name, tokens_per_shard=700, **rules, **more)
    return tmp_path / "plain", tmp_path / "begun"


def test_every_document_begins_with_it_and_is_else_as_without(both):
    """The same documents in the same splits, and the same are duplicates."""
    plain, begun = map(read_dataset, both)

    assert begun == {split: with_begin(documents) for split, documents in plain.items()}
    assert len(begun["val"]) > 10
    assert sum(map(len, begun.values())) == 200


def test_it_is_recorded_and_seen(both):
    plain, begun = both
    record = json.loads((begun / "dataset_metadata.json").read_bytes())

    assert record["tokenizer"]["begin_token_id"] == BEGIN
    assert record["settings"]["begin_token"] == "<s>"
    assert (
        tokenmill.open(begun).begin_token_id == tokenmill.open(begun, "val").begin_token_id == BEGIN
    )
    assert tokenmill.open(begun).part(3, 90).begin_token_id == BEGIN
    assert tokenmill.inspect(begun).tokenizer.begin_token_id == BEGIN
    assert f"| {BEGIN} |" in (begun / "README.md").read_text()
    assert "--begin_token '<s>'" in (begun / "README.md").read_text()
    assert verify(begun, full=True) == []
    assert not tokenmill.verify(begun).traps
    for text in (plain / "dataset_metadata.json", plain / "README.md"):
        assert "begin_token_id" not in text.read_text()


@pytest.mark.parametrize(("workers", "unit_bytes"), [(1, 1 << 20), (2, 3000)])
def test_a_document_in_many_pieces_begins_once(tmp_path, tokenizer, workers, unit_bytes):
    """Units and pieces of one document: whatever their size, the same bytes."""
    text = "\n".join(numbered(0, 600))
    (tmp_path / "long.txt").write_text(text)
    rules = {"tokenizer": tokenizer, "dedup": "none", "val_fraction": 0, "begin_token": "auto"}
    out = tmp_path / "out"

    prepare(
        tmp_path / "long.txt", out, workers=workers, unit_bytes=unit_bytes, long_line=2000, **rules
    )

    assert read_dataset(out) == {"train": [[BEGIN, *text.encode(), END]]}


@pytest.mark.parametrize("dedup", ["lines", "documents"])
def test_what_is_added_has_it_too_and_duplicates_are_known(tmp_path, tokenizer, dedup):
    a = write_rows(tmp_path / "a.jsonl", numbered(0, 60))
    b = write_rows(tmp_path / "b.jsonl", [*numbered(40, 50), *numbered(70, 80)])
    out = tmp_path / "out"
    rules = {"workers": 1, "tokenizer": tokenizer, "val_fraction": 0, "dedup": dedup}
    prepare(a, out, begin_token="<s>", **rules)

    summary = prepare(b, out, append=True, workers=1, tokenizer=tokenizer)

    expected = [[BEGIN, *text.encode(), END] for text in [*numbered(0, 60), *numbered(70, 80)]]
    assert read_dataset(out)["train"] == expected
    assert sum(summary.dropped.values()) == 10
    with pytest.raises(SettingsMismatchError, match="begin_token '<s>'"):
        prepare(a, out, append=True, begin_token="auto", workers=1)


def test_another_begin_token_is_another_preparation(both, tokenizer):
    plain, begun = both
    before = hashes_of_files(begun)
    rows = begun.parent / "a.jsonl"
    rules = {"tokenizer": tokenizer, "val_fraction": 0.2, "dedup": "documents", "workers": 1}

    for out, more, difference in (
        (begun, {}, "begin_token   '<s>' -> None"),
        (plain, {"begin_token": "<s>"}, "begin_token   None -> '<s>'"),
    ):
        with pytest.raises(SettingsMismatchError) as error:
            prepare(rows, out, tokens_per_shard=700, **rules, **more)
        assert difference in str(error.value)
    assert hashes_of_files(begun) == before


# Converting


def test_converted_to_ours_it_is_kept_and_can_be_added_to(both, tokenizer, tmp_path):
    _, begun = both
    for to in ("megatron", "llmc"):
        tokenmill.convert(begun, tmp_path / to, to=to, allow_lost_documents=True)
    rows = write_rows(tmp_path / "b.jsonl", numbered(300, 303))

    tokenmill.convert(begun, tmp_path / "again", to="tokenmill")
    again = tmp_path / "again"
    prepare(rows, again, append=True, workers=1, dedup="none")

    assert Manifest.load(again).tokenizer.begin_token_id == BEGIN
    assert verify(again, full=True) == []
    added = [[BEGIN, *text.encode(), END] for text in numbered(300, 302)]
    assert read_dataset(again)["train"][-3:-1] == added  # the end of the third is held out


def test_foreign_files_that_have_it_say_so_when_converted(both, tokenizer, tmp_path):
    _, begun = both
    megatron = tmp_path / "megatron"
    tokenmill.convert(begun, megatron, to="megatron")
    names = {"tokenizer": tokenizer, "begin_token": BEGIN}

    tokenmill.convert(megatron, tmp_path / "back", to="tokenmill", **names)

    assert tokenmill.open(tmp_path / "back").begin_token_id == BEGIN
    assert read_dataset(tmp_path / "back") == read_dataset(begun)
    wrong = {**names, "begin_token": 68}
    with pytest.raises(FormatError, match="does not begin with the begin token 68"):
        tokenmill.convert(megatron, tmp_path / "wrong", to="tokenmill", **wrong)


# Two of them


@pytest.mark.parametrize("on_bad_input", ["error", "replace"])
def test_a_text_that_spells_it_out_is_refused_or_kept_as_text(tmp_path, tokenizer, on_bad_input):
    texts = [*numbered(0, 5), "<s>Again a text that has one.", "Not first: <s>"]
    rows = write_rows(tmp_path / "a.jsonl", texts)
    rules = {"tokenizer": tokenizer, "begin_token": "<s>", "workers": 1, "val_fraction": 0}

    if on_bad_input == "error":
        with pytest.raises(BadInputError, match=r"begins with '<s>' spelled out.*doubled"):
            prepare(rows, tmp_path / "out", **rules)
        return
    summary = prepare(rows, tmp_path / "out", on_bad_input="replace", **rules)

    found = read_dataset(tmp_path / "out")["train"]
    assert found == [[BEGIN, *text.encode(), END] for text in texts]
    assert any(
        "kept as text: the literal begin token of 1 document" in note for note in summary.notes
    )


@pytest.mark.parametrize(
    ("begin_token", "error", "message"),
    [
        ("<|end_of_text|>", ValueError, "is the end-of-text token.*doubled"),
        ("<bos>", ValueError, "not one of the special tokens.*<s>"),
        ("70000", ValueError, "not an id of tokenizer.json"),
        (str(ord("D")), PrepareError, r"gives the begin token \(id 68\) for text as well"),
    ],
)
def test_a_token_that_cannot_begin_documents_is_refused(
    tmp_path, tokenizer, begin_token, error, message
):
    rows = write_rows(tmp_path / "a.jsonl", numbered(0, 5))

    with pytest.raises(error, match=message):
        prepare(rows, tmp_path / "out", tokenizer=tokenizer, begin_token=begin_token, workers=1)


@pytest.mark.parametrize(("name", "said"), [("chars", "chars has no"), ("bytes", "special tokens")])
def test_tokenizers_without_special_tokens_say_so(tmp_path, name, said):
    rows = write_rows(tmp_path / "a.jsonl", numbered(0, 5))

    with pytest.raises(ValueError, match=said):
        prepare(rows, tmp_path / "out", tokenizer=name, begin_token="<s>", workers=1)


def test_gpt2_can_have_a_free_id(tmp_path):
    """It has no begin token of its own; the id after its last is one that no text becomes."""
    rows, out = write_rows(tmp_path / "a.jsonl", numbered(0, 3)), tmp_path / "out"
    with pytest.raises(ValueError, match="50257 is free"):
        prepare(rows, out, begin_token="auto", workers=1)

    prepare(rows, out, begin_token="50257", workers=1, val_fraction=0)

    data = tokenmill.open(out)
    assert (data.begin_token_id, data.vocab_size, data.dtype) == (50257, 50258, np.uint16)
    assert [document[0] for document in read_dataset(out)["train"]] == [50257] * 3
    assert data.decode(data.document(1)).startswith("<|begin_of_text|>Document number 1")


@pytest.mark.parametrize("begin_token", [BEGIN, END, 65])
def test_a_loader_puts_no_second_one_before_documents(both, begin_token):
    plain, begun = map(tokenmill.open, both)

    tokenmill.BatchLoader(plain, block_size=64, rows="packed", begin_token=begin_token)
    with pytest.raises(ValueError, match=f"begins with the begin token {BEGIN} already"):
        tokenmill.BatchLoader(begun, block_size=64, rows="packed", begin_token=begin_token)


# Found by verify


def damage(folder, change):
    """Write other ids into the first shard, with the hash that they have."""
    import xxhash

    path, record = folder / "train/shard_00000.bin", folder / "dataset_metadata.json"
    ids = np.fromfile(path, "<u2")
    before = xxhash.xxh3_128_hexdigest(path.read_bytes())
    change(ids)
    path.write_bytes(ids.tobytes())
    after = xxhash.xxh3_128_hexdigest(path.read_bytes())
    tree = json.loads(record.read_text().replace(before, after))
    record.write_bytes(signed(tree))


def test_verify_finds_a_document_without_it(both):
    _, begun = both
    first_end = tokenmill.open(begun).document_range(0)[1]
    damage(begun, lambda ids: ids.__setitem__(first_end, 65))

    found = [finding.found for finding in verify(begun, full=True) if finding.what == "index"]

    assert len(found) == 1
    assert "1 documents without one" in found[0]


def test_verify_names_documents_with_two_and_with_none(both):
    _, begun = both
    damage(begun, lambda ids: ids.__setitem__(np.flatnonzero(ids[:-1] == BEGIN) + 1, BEGIN))

    assert {trap.name for trap in tokenmill.verify(begun).traps} == {"doubled-begin-token"}

    damage(begun, lambda ids: ids.__setitem__(ids == BEGIN, 65))
    assert {trap.name for trap in tokenmill.verify(begun).traps} == {"missing-begin-token"}


def test_verify_finds_doubled_ones_that_nothing_names(tmp_path, tokenizer):
    documents = [np.array([BEGIN, BEGIN, *text.encode(), END]) for text in numbered(0, 50)]
    np.save(tmp_path / "foreign.npy", np.concatenate(documents).astype(np.uint16))

    found = tokenmill.verify(tmp_path / "foreign.npy", tokenizer=tokenizer, end_of_text=END).traps

    assert "doubled-begin-token" in {trap.name for trap in found}


def test_a_manifest_with_an_impossible_begin_token_is_refused(both):
    _, begun = both
    for wrong in (END, 5000, "<s>"):
        rewrite(begun, lambda tree, wrong=wrong: tree["tokenizer"].update(begin_token_id=wrong))
        with pytest.raises(FormatError, match="begin_token_id is"):
            Manifest.load(begun)
