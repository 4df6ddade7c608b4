"""convert(): columns go where there is a place for them, and are refused by name elsewhere."""

import numpy as np
import pytest
from click.testing import CliRunner
from column_data import axis_of, make_documents, write

import tokenmill
from tokenmill.cli import tokenmill as command
from tokenmill.conversion.convert import convert
from tokenmill.errors import CorruptShardError, FormatError, TruncatedShardError
from tokenmill.formats.format import WRITABLE
from tokenmill.shards.verify import verify

DOCUMENTS = make_documents(5, count=25)
COLUMNS = axis_of(DOCUMENTS)
PLACES = {"datatrove": "*.ds.loss", "dolma": "*.labels_mask"}
SMALL = {"tokens_per_shard": 300}


@pytest.fixture
def chat(tmp_path):
    write(tmp_path / "chat", DOCUMENTS, names=("ids", "loss"))
    return tmp_path / "chat"


@pytest.mark.parametrize("to", PLACES)
def test_a_mask_goes_to_another_project_and_back(chat, tmp_path, to):
    """A byte for each token, next to the ids, as the readers of these projects map it."""
    convert(chat, tmp_path / "there", to=to, **SMALL)
    files = sorted((tmp_path / "there").rglob(PLACES[to]))
    assert len(files) > 1
    mask = np.concatenate([np.fromfile(file, np.bool_) for file in files])
    assert (mask == COLUMNS["loss"]).all()

    dtype = {"dtype": "uint16"} if to == "dolma" else {}
    data = tokenmill.open(tmp_path / "there", **dtype)
    batch = tokenmill.BatchLoader(data, batch_size=3, block_size=20).batch(2)
    places = batch.starts[:, None] + np.arange(1, 21)
    assert batch.columns["loss"].dtype == bool
    assert ((batch.labels != -100) == COLUMNS["loss"][places]).all()

    options = {"tokenizer": "bytes", "end_of_text": 256, "tokens_per_shard": 333, **dtype}
    convert(tmp_path / "there", tmp_path / "back", to="tokenmill", **options)
    for path in sorted(chat.rglob("shard_*")):
        assert path.read_bytes() == (tmp_path / "back" / path.relative_to(chat)).read_bytes()


def test_a_mask_of_another_length_or_of_some_files_only_is_refused(chat, tmp_path):
    convert(chat, tmp_path / "there", to="datatrove", **SMALL)
    first, second, *_ = sorted((tmp_path / "there").rglob("*.ds.loss"))
    data = first.read_bytes()
    first.write_bytes(data[:-1])
    with pytest.raises(TruncatedShardError, match=r"\.ds\.loss"):
        tokenmill.open(tmp_path / "there")
    first.write_bytes(data + b"\0")
    with pytest.raises(CorruptShardError, match=r"\.ds\.loss"):
        tokenmill.open(tmp_path / "there")
    first.write_bytes(data)
    second.unlink()
    with pytest.raises(FormatError, match=r"has 0 columns .* all files must have the same"):
        tokenmill.open(tmp_path / "there")
    assert tokenmill.open(tmp_path / "there", columns=[]).columns == {}


@pytest.mark.parametrize("to", [name for name in WRITABLE if name not in (*PLACES, "tokenmill")])
def test_a_format_without_a_place_refuses_columns_by_name(chat, tmp_path, to):
    with pytest.raises(FormatError, match=f"has the columns loss, and {to} has no place") as caught:
        convert(chat, tmp_path / "new", to=to)

    assert "--columns none" in caught.value.hint
    assert not (tmp_path / "new").exists()


def test_columns_can_be_left_out_on_the_command_line(chat, tmp_path):
    run = CliRunner().invoke
    words = ["convert", str(chat), str(tmp_path / "new"), "--to", "megatron", "--columns", "none"]

    assert run(command, words).exit_code == 0
    found = tokenmill.open(tmp_path / "new").tokens(0, len(COLUMNS["ids"]))
    assert (found == COLUMNS["ids"]).all()


def test_all_columns_go_to_our_own_format_in_shards_of_another_size(tmp_path):
    source = write(tmp_path / "d", DOCUMENTS)
    convert(source.path, tmp_path / "new", to="tokenmill", tokens_per_shard=100)
    convert(source.path, tmp_path / "some", to="tokenmill", columns=["kind"], tokens_per_shard=333)
    copy = tokenmill.open(tmp_path / "new")

    assert copy.columns == source.columns
    for name in source.columns:
        assert (copy.column(name, 0, len(copy)) == COLUMNS[name]).all()
    assert tokenmill.open(tmp_path / "some").columns == {"kind": 8}


def test_compressing_keeps_columns_and_fingerprint(tmp_path):
    source = write(tmp_path / "d", DOCUMENTS)
    convert(source.path, tmp_path / "small", compress="zstd:3")
    convert(tmp_path / "small", tmp_path / "back", decompress=True)

    assert tokenmill.open(tmp_path / "small").fingerprint == source.fingerprint
    assert verify(tmp_path / "small", full=True) == []
    assert not list((tmp_path / "small").rglob("*.loss"))
    for path in sorted((tmp_path / "d").rglob("shard_*")):
        copy = tmp_path / "back" / path.relative_to(tmp_path / "d")
        assert path.read_bytes() == copy.read_bytes()
