"""For each trap a bad file is made and `verify` names it; on good data it says nothing."""

import doctest
import json
import re
from pathlib import Path

import numpy as np
import pytest
from look import build
from look.build import ALL_FORMATS, EOT, joined

from tokenmill.cli import main
from tokenmill.errors import NotADatasetError
from tokenmill.look import shard_files, token_sample
from tokenmill.look.check import verify


def names(path, **settings) -> list[str]:
    return [finding.name for finding in verify(path, **settings).traps]


@pytest.mark.parametrize("format", ALL_FORMATS)
@pytest.mark.parametrize("tokenizer", [None, "gpt2"])
def test_good_data_of_every_format_is_silent(tmp_path, docs, format, tokenizer):
    write, settings = ALL_FORMATS[format]
    path = write(tmp_path / "d", docs)
    if tokenizer:
        made, _ = build.tokenizer_of(tokenizer)
        settings = settings | {"tokenizer": made, "end_of_text": EOT}

    result = verify(path, **settings)

    assert result.traps == []
    assert result.tokens_sampled == result.tokens > 50_000


def test_good_data_in_four_bytes_is_silent(tmp_path, docs):
    build.raw(tmp_path / "d", docs, "<u4")

    assert names(tmp_path / "d", dtype="uint32", tokenizer="gpt2") == []


@pytest.mark.parametrize("tokenizer", ["bytes"])
def test_good_data_of_a_small_vocabulary_is_silent(tmp_path, tokenizer):
    texts = {"train": build.documents(300, seed=3), "val": build.documents(30, seed=4)}
    docs = {name: build.encoded(t, tokenizer) for name, t in texts.items()}
    build.ours(tmp_path / "d", docs, tokens_per_shard=100_000, tokenizer=tokenizer)

    assert names(tmp_path / "d") == []


def one_file(tmp_path: Path, data: bytes, name: str = "train.bin") -> Path:
    path = tmp_path / "bad" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def stream(docs, dtype="<u2") -> np.ndarray:
    return joined(docs["train"]).astype(dtype)


# Headers


def test_a_real_npy_read_raw_is_named_with_its_64_tokens(tmp_path, docs):
    path = build.npy(tmp_path / "d", docs) / "corpus_train.npy"

    [found] = verify(path, format="dolma", dtype="uint16").traps

    assert found.name == "header-as-tokens"
    assert "be: [20115, 19797, 22864, 1, 118, 10107]" in found.evidence


def test_a_shard_of_llmc_read_raw_is_named_with_its_512_tokens(tmp_path, docs):
    path = build.llmc(tmp_path / "d", docs) / "corpus_train_000001.bin"

    [found] = verify(path, format="nanogpt", dtype="uint16").traps

    assert found.name == "header-as-tokens"
    assert "be: [55432, 308, 1, 0, 30000, 0]" in found.evidence


def test_headers_copied_into_a_dataset_of_ours_are_found(tmp_path, docs):
    """Somebody memory-mapped shards of llm.c as uint16 and wrote what came out."""
    bogus = np.frombuffer(build.llmc_bytes(np.empty(0)), "<u2").astype(np.int64)
    train = [*docs["train"][:200], np.concatenate([bogus, docs["train"][200]])]
    build.ours(tmp_path / "d", {"train": train})

    found = verify(tmp_path / "d").traps

    assert [f.name for f in found] == ["header-as-tokens"]
    place = int(sum(len(d) + 1 for d in docs["train"][:200]))
    assert found[0].where == f"train, token {place:,}"


# Width and byte order


@pytest.mark.parametrize(
    ("written", "read", "name", "fix"),
    [
        ("<u4", "uint16", "wrong-dtype", 'dtype="uint32"'),
        ("<u8", "uint16", "wrong-dtype", 'dtype="uint64"'),
        ("<u8", "uint32", "wrong-dtype", 'dtype="uint64"'),
        ("<u2", "uint32", "wrong-dtype", 'dtype="uint16"'),
        ("<u2", "int16", "wrong-dtype", 'dtype="uint16"'),
        (">u2", "uint16", "byte-order", "little-endian"),
        (">u4", "uint32", "byte-order", "little-endian"),
    ],
)
@pytest.mark.parametrize("end", [None, EOT])
def test_ids_read_as_another_type_are_named(tmp_path, docs, written, read, name, fix, end):
    ids = stream(docs, written)[:65_536]
    path = one_file(tmp_path, ids.tobytes())

    settings = {} if end is None or read == "int16" else {"end_of_text": end}
    found = verify(path, dtype=read, **settings).traps

    assert {f.name for f in found} == {name}
    assert all(fix in f.fix for f in found)


def test_four_byte_ids_of_a_large_vocabulary_read_as_two_are_named(tmp_path, docs):
    """Llama's ids go up to 128,000: the upper halves are 0 and 1, not only 0."""
    ids = stream(docs, "<u4") * 2 + 1
    path = one_file(tmp_path, ids.tobytes())

    assert set(names(path, dtype="uint16")) == {"wrong-dtype"}


def test_a_sample_of_a_large_file_shows_the_same_as_the_whole(tmp_path, docs):
    """Blocks of the sample begin at odd places, where high and low halves change their seats."""
    ids = np.tile(stream(docs, "<u4"), 4)
    path = one_file(tmp_path, ids.tobytes())

    result = verify(path, dtype="uint16", sample=5 * 65_536)

    assert {f.name for f in result.traps} == {"wrong-dtype"}
    assert result.tokens_sampled < result.tokens


@pytest.mark.parametrize(("written", "expected"), [("<u2", "uint16"), ("<u4", "uint32")])
def test_a_dtype_that_no_file_states_is_guessed_from_the_data(tmp_path, docs, written, expected):
    path = one_file(tmp_path, stream(docs, written).tobytes())

    result = verify(path)

    assert result.assumed == {"dtype": expected}
    assert result.traps == []


# Ids


def test_an_id_beyond_the_vocabulary_is_found_with_its_place(tmp_path, docs):
    ids = stream(docs)
    ids[1234] = 50_300
    path = one_file(tmp_path, build.llmc_bytes(ids))

    found = verify(path).traps

    assert [f.name for f in found] == ["ids-beyond-vocabulary"]
    assert "1 of" in found[0].evidence
    assert "the first at token 1,234" in found[0].evidence


def test_a_tokenizer_that_knew_nothing_is_named(tmp_path, docs):
    ids = stream(docs)
    ids[np.random.default_rng(0).random(len(ids)) < 0.9] = 3
    path = one_file(tmp_path, ids.tobytes())

    assert "one-token" in names(path, dtype="uint16")


# Tails


@pytest.mark.parametrize("zeros", [64, 5000, 100_000])
def test_a_tail_of_zeros_is_named_with_its_length(tmp_path, docs, zeros):
    ids = np.concatenate([stream(docs), np.zeros(zeros, "<u2")])
    path = one_file(tmp_path, ids.tobytes())

    found = [f for f in verify(path, dtype="uint16").traps if f.name == "zero-tail"]

    assert len(found) == 1
    assert "are all 0" in found[0].evidence


def test_a_file_of_nothing_but_zeros_is_named(tmp_path):
    path = one_file(tmp_path, bytes(200_000))

    assert "zero-tail" in names(path, dtype="uint16")


def test_a_block_that_was_never_written_is_named(tmp_path, docs):
    ids = stream(docs)
    ids[30_000:32_048] = 0
    path = one_file(tmp_path, ids.tobytes())

    [found] = verify(path, dtype="uint16").traps

    assert found.name == "zero-hole"
    assert found.where == "train, token 30,000"


def test_padding_with_separators_is_a_note(tmp_path, docs):
    path = build.litpkds(tmp_path / "d", docs, padding=3000)

    found = verify(path).traps

    assert {f.name for f in found} == {"padded-tail"}
    assert not any(f.is_fault for f in found)


# Ends of documents


def test_documents_without_a_mark_are_named(tmp_path, docs):
    path = build.megatron(tmp_path / "d", docs, append_eod=False)

    assert set(names(path)) == {"missing-end-of-text"}


def test_a_stream_without_one_mark_is_named(tmp_path, docs):
    ids = np.tile(np.concatenate(docs["train"]), 4)[:250_000].astype("<u2")
    path = one_file(tmp_path, ids.tobytes())

    assert "missing-end-of-text" in names(path, dtype="uint16", end_of_text=EOT)


@pytest.mark.parametrize("format", ["tokenmill", "llmc", "datatrove"])
def test_doubled_marks_are_named(tmp_path, docs, format):
    doubled = {name: [np.append(d, EOT) for d in some] for name, some in docs.items()}
    write, settings = ALL_FORMATS[format]
    path = write(tmp_path / "d", doubled)

    assert set(names(path, **settings, end_of_text=EOT)) == {"doubled-end-of-text"}


# Shards


def test_a_shard_cut_short_is_named(tmp_path, docs):
    path = build.llmc(tmp_path / "d", docs)
    shard = path / "corpus_train_000002.bin"
    shard.write_bytes(shard.read_bytes()[:-1000])

    [damage] = verify(path).damaged

    assert damage.what == "size"
    assert "corpus_train_000002.bin" in damage.found


def test_a_raw_shard_shorter_than_the_others_is_named(tmp_path, docs):
    ids = stream(docs)
    for number in range(6):
        part = ids[number * 10_000 : (number + 1) * 10_000]
        one_file(tmp_path, part[: 7000 if number == 2 else None].tobytes(), f"s{number}.bin")

    assert names(tmp_path / "bad", dtype="uint16") == ["cut-shard"]


def test_a_shard_that_is_there_twice_is_named(tmp_path, docs):
    path = build.llmc(tmp_path / "d", docs, tokens_per_shard=12_000)
    first, fourth = (path / f"corpus_train_00000{n}.bin" for n in (1, 4))
    fourth.write_bytes(first.read_bytes())

    [found] = verify(path).traps

    assert found.name == "repeated-shard"
    assert (found.where, first.name in found.evidence) == (fourth.name, True)


# Order and splits


@pytest.mark.parametrize("format", ["llmc", "megatron", "datatrove"])
def test_documents_sorted_by_length_are_named_as_never_shuffled(tmp_path, docs, format):
    train = sorted(docs["train"], key=len)
    path = ALL_FORMATS[format][0](tmp_path / "d", {"train": train, "val": docs["val"]})

    result = verify(path)

    assert [f.name for f in result.traps] == ["never-shuffled"]
    assert result.ok


def test_nothing_is_said_of_the_order_of_our_own_documents(tmp_path, docs):
    """They lie as their sources do, which is normal, and our loader shuffles windows."""
    build.ours(tmp_path / "d", {"train": sorted(docs["train"], key=len), "val": docs["val"]})

    assert names(tmp_path / "d") == []


def test_documents_of_one_source_after_those_of_another_are_named(tmp_path, docs):
    digits = [str(np.arange(i, i + 60)).encode() for i in range(300)]
    path = build.llmc(tmp_path / "d", {"train": [*docs["train"][:300], *build.encoded(digits)]})

    assert "never-shuffled" in names(path)


@pytest.mark.parametrize("format", ["tokenmill", "nanogpt", "megatron"])
def test_held_out_documents_that_are_in_train_are_named(tmp_path, docs, format):
    leaked = {"train": [*docs["train"], *docs["val"]], "val": docs["val"]}
    write, settings = ALL_FORMATS[format]
    path = write(tmp_path / "d", leaked)

    assert names(path, **settings) == ["train-val-overlap"]


def test_one_document_that_is_in_both_is_only_a_note(tmp_path, docs):
    train = [*docs["train"], *([docs["val"][0]] if len(docs["val"][0]) > 100 else [docs["val"][1]])]
    build.ours(tmp_path / "d", {"train": train, "val": docs["val"]})

    assert verify(tmp_path / "d").ok


def test_a_validation_file_that_is_the_end_of_train_is_named(tmp_path, docs):
    """At another offset, in the middle of documents."""
    ids = stream(docs)
    one_file(tmp_path, ids.tobytes(), "train.bin")
    one_file(tmp_path, ids[-10_001:].tobytes(), "val.bin")

    assert names(tmp_path / "bad", dtype="uint16") == ["train-val-overlap"]


# The tokenizer


def test_ids_of_another_tokenizer_are_named(tmp_path, docs):
    shift = [(d.astype(np.int64) * 7919 + 13) % 50_000 for d in docs["train"]]  # another numbering
    build.ours(tmp_path / "d", {"train": shift})

    assert "wrong-tokenizer" in names(tmp_path / "d")


def test_the_text_of_ids_of_another_tokenizer_is_shown(tmp_path, docs):
    letters = np.concatenate(build.encoded([letter.encode() for letter in "a zebra "]))
    build.ours(tmp_path / "d", {"train": [*docs["train"][:20], *[np.tile(letters, 200)] * 60]})

    (found,) = [each for each in verify(tmp_path / "d").traps if each.name == "wrong-tokenizer"]

    assert "zebra" in found.evidence


def test_ids_of_a_byte_tokenizer_called_gpt2_are_named(tmp_path):
    docs = build.encoded(build.documents(100, seed=5), "bytes")
    path = one_file(tmp_path, joined(docs, eot=EOT).astype("<u2").tobytes())

    assert "wrong-tokenizer" in names(path, dtype="uint16", tokenizer="gpt2")


# The command


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["verify", *map(str, args)])
    return int(stop.value.code or 0)


def test_the_command_finds_nothing_and_exits_0_on_good_data(tmp_path, docs, capsys):
    assert run(build.ours(tmp_path / "d", docs)) == 0

    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r".*: sound; compared sizes, looked at ([\d,]+) of \1 tokens\n", err)


def test_the_command_prints_evidence_and_fix_and_exits_12_on_faults(tmp_path, docs, capsys):
    path = one_file(tmp_path, stream(docs, "<u4").tobytes())

    assert run(path, "--dtype", "uint16") == 12

    out = capsys.readouterr().out
    assert out.startswith("FAULT  wrong-dtype  train (uint16)\n       1 of every 2 tokens")
    assert "       fix: these are ids of 4 bytes: --dtype uint32\n" in out


def test_json_has_the_same(tmp_path, docs, capsys):
    path = one_file(tmp_path, stream(docs, "<u4").tobytes())

    assert run(path, "--dtype", "uint16", "--json") == 12

    found = json.loads(capsys.readouterr().out)["traps"]
    assert found[0]["name"] == "wrong-dtype"


def test_a_folder_without_token_data_is_no_dataset(tmp_path):
    (tmp_path / "a.txt").write_text("text")

    with pytest.raises(NotADatasetError):
        verify(tmp_path)
    assert run(tmp_path) == 10


def test_a_trillion_tokens_take_seconds(tmp_path, docs):
    """A sparse file: what is between the written parts is never read as a whole."""
    path = tmp_path / "train.bin"
    ids = stream(docs)
    with path.open("wb") as file:
        file.write(ids.tobytes())
        file.truncate(2 * 10**12)

    result = verify(path, dtype="uint16", sample=1 << 20)

    assert "zero-tail" in [f.name for f in result.traps]
    assert result.tokens_sampled < 4 << 20


@pytest.mark.parametrize("module", [token_sample, shard_files], ids=lambda module: module.__name__)
def test_the_examples_in_the_docs_are_true(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
