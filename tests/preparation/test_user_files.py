"""What is in the way of a dataset: files of the user are neither removed nor read as text."""

import json
import os

import pytest
from flat import estimate, prepare
from preparation.oracle import hashes_of_files
from preparation.runs import assert_nothing_stray

from tokenmill.base.progress import Progress
from tokenmill.errors import PrepareError, SettingsMismatchError

BYTES = {"tokenizer": "bytes", "workers": 1}


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("This is the text of a file.\n")
    (folder / "notes.doc").write_text("irreplaceable")
    return folder


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_without_a_dataset_is_never_replaced(corpus, tmp_path, overwrite):
    before = hashes_of_files(tmp_path)
    for inputs, out in [(corpus, corpus), (corpus / "a.txt", corpus), (corpus, tmp_path)]:
        with pytest.raises(SettingsMismatchError, match=r"but no dataset \(such as") as refused:
            prepare(inputs, out, **BYTES, overwrite=overwrite)
        assert "overwrite" not in str(refused.value)
        assert hashes_of_files(tmp_path) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_manifest_of_another_program_does_not_make_it_ours(corpus, tmp_path, overwrite):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "dataset_metadata.json").write_text('{"format": "parquet", "rows": 3}')
    with pytest.raises(SettingsMismatchError, match="but no dataset"):
        prepare(corpus, theirs, **BYTES, overwrite=overwrite)
    assert os.listdir(theirs) == ["dataset_metadata.json"]


def test_a_damaged_dataset_can_be_replaced(corpus, tmp_path):
    out = tmp_path / "out"
    prepare(corpus, out, **BYTES)
    before = hashes_of_files(out)
    os.truncate(out / "dataset_metadata.json", 100)
    prepare(corpus, out, **BYTES, overwrite=True)
    assert hashes_of_files(out) == before


@pytest.mark.parametrize("how", [{}, {"append": True}, {"overwrite": True}])
def test_an_input_inside_the_output_is_refused(corpus, tmp_path, how):
    out = tmp_path / "out"
    prepare(corpus, out, **BYTES)
    (out / "more.txt").write_text("More text, put beside the shards.\n")
    (tmp_path / "link").symlink_to(out)
    before = hashes_of_files(out)
    for given in (out / "more.txt", tmp_path / "link" / "more.txt"):
        for to in (out, tmp_path / "link"):
            with pytest.raises(SettingsMismatchError, match=r"more\.txt is inside the output"):
                prepare([corpus, given], to, **BYTES, **how)
            assert hashes_of_files(out) == before
    assert sorted(os.listdir(tmp_path)) == ["corpus", "link", "out"]


class Notes(Progress):
    """Keeps what is said."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)

    def follow(self, what, results, **total):
        yield from results


@pytest.mark.parametrize("pattern", ["", "/**/*.*", "/*/*.*"])
def test_datasets_among_the_text_are_passed_over(corpus, tmp_path, pattern):
    """The output may lie below the input: it does not become input of the next run."""
    (corpus / "notes.doc").unlink()
    (corpus / "deep").mkdir()
    (corpus / "deep" / "b.txt").write_text("Another text, further down.\n")
    given = f"{corpus}{pattern}"
    prepare(given, corpus / "out", **BYTES)
    before = hashes_of_files(corpus / "out")
    notes = Notes()
    again = prepare(given, corpus / "out", **BYTES, progress=notes)
    assert again.notes == ["it was complete already"]
    assert f"(such as '{corpus / 'out'}')" in notes.said[0]
    prepare(given, corpus / "out", **BYTES, overwrite=True)
    prepare(given, tmp_path / "elsewhere", **BYTES)
    assert hashes_of_files(corpus / "out") == hashes_of_files(tmp_path / "elsewhere") == before
    assert estimate(given, workers=1, tokenizer="bytes").files == len(again_sources(corpus))


def again_sources(corpus):
    return json.loads((corpus / "out" / "dataset_metadata.json").read_bytes())["sources"]


@pytest.mark.parametrize("pattern", ["", "/*", "/*/*"])
def test_a_dataset_is_not_text(corpus, tmp_path, pattern):
    prepare(corpus, tmp_path / "out", **BYTES)
    with pytest.raises(PrepareError, match="out holds a dataset, or the work on one, and no text"):
        prepare(f"{tmp_path / 'out'}{pattern}", tmp_path / "other", **BYTES)
    assert not (tmp_path / "other").exists()


def test_an_empty_folder_may_be_replaced(corpus, tmp_path):
    (tmp_path / "out").mkdir()
    prepare(corpus, tmp_path / "out", **BYTES, overwrite=True)
    assert_nothing_stray(tmp_path / "out")


def test_a_work_folder_of_something_else_is_refused(corpus, tmp_path):
    """What is made there is removed by name: `train` could be anybody's."""
    pytest.importorskip("aiobotocore")
    work = tmp_path / "work"
    (work / "train").mkdir(parents=True)
    (work / "train" / "model.pt").write_text("irreplaceable")
    with pytest.raises(SettingsMismatchError, match="but no dataset"):
        prepare(corpus, "s3://bucket/data", work_dir=work, **BYTES)
    assert (work / "train" / "model.pt").exists()
