"""Which tokens are held out: by folder, by name, else by place; however the files are named."""

import shutil
from pathlib import Path

import pytest
from formats.our_files import write_ours
from formats.raw_files import ids_of, raw
from hypothesis import given
from hypothesis import strategies as st

import tokenmill
from tokenmill.errors import FormatError, NotADatasetError


class TestSplits:
    def test_names_with_train_and_val_are_whole_splits(self, tmp_path):
        raw(tmp_path, a_val_000000__bin=[1, 2], a_train_000001__bin=[3], a_train_000002__bin=[4, 5])

        assert ids_of(tmp_path, "train") == [3, 4, 5]
        assert ids_of(tmp_path, "val") == [1, 2]
        assert ids_of(tmp_path, "all") == [3, 4, 5, 1, 2]

    @pytest.mark.parametrize("word", ["val", "valid", "validation"])
    def test_train_bin_and_val_bin_are_whole_splits(self, tmp_path, word):
        raw(tmp_path, **{"train__bin": [1, 2, 3], f"{word}__bin": [4]})

        assert ids_of(tmp_path, "train") == [1, 2, 3]
        assert ids_of(tmp_path, "val") == [4]

    def test_folders_named_train_and_val_are_whole_splits(self, tmp_path):
        raw(tmp_path / "train", s0__bin=[1], s1__bin=[2, 3])
        raw(tmp_path / "val", s2__bin=[4])

        assert ids_of(tmp_path, "train") == [1, 2, 3]
        assert ids_of(tmp_path, "val") == [4]
        assert ids_of(tmp_path, "all") == [1, 2, 3, 4]

    def test_folders_beside_train_may_be_validation_sets_with_names(self, tmp_path):
        raw(tmp_path / "train", s0__bin=[1, 2])
        raw(tmp_path / "val_code", val__bin=[3])
        raw(tmp_path / "val_law", s0__bin=[4])

        assert ids_of(tmp_path, None) == ids_of(tmp_path, "train") == [1, 2]
        assert ids_of(tmp_path, "val_code") == [3]
        assert ids_of(tmp_path, "all") == [1, 2, 3, 4]
        with pytest.raises(FormatError, match="no val_x split; it has the folders train, val_code"):
            ids_of(tmp_path, "val_x")

    def test_a_file_or_a_lone_folder_named_val_something_is_no_such_set(self, tmp_path):
        raw(tmp_path / "a", train_tokens__bin=[1, 2], val_tokens__bin=[3])
        raw(tmp_path / "val_b", s0__bin=[1], s1__bin=[2])

        assert ids_of(tmp_path / "a", "val") == [3]
        assert ids_of(tmp_path / "val_b", "val") == [2]
        for path in (tmp_path / "a", tmp_path / "val_b"):
            with pytest.raises(FormatError, match="has no val_tokens split"):
                ids_of(path, "val_tokens")
        with pytest.raises(ValueError, match="unknown split 'vla'"):
            ids_of(tmp_path / "a", "vla")

    def test_without_names_the_last_shard_is_held_out(self, tmp_path):
        raw(tmp_path, a__bin=[1, 2], b__bin=[3], c__bin=[4, 5])

        assert ids_of(tmp_path, "train") == [1, 2, 3]
        assert ids_of(tmp_path, "val") == [4, 5]

    def test_with_train_shards_only_the_last_is_held_out(self, tmp_path):
        """The published FineWeb-Edu shards are all named train."""
        raw(tmp_path, e_train_000001__bin=[1], e_train_000002__bin=[2], e_train_000003__bin=[3])

        assert ids_of(tmp_path, "train") == [1, 2]
        assert ids_of(tmp_path, "val") == [3]

    def test_with_a_train_folder_only_its_last_shard_is_held_out(self, tmp_path):
        raw(tmp_path / "train", a__bin=[1], b__bin=[2])

        assert ids_of(tmp_path, "train") == [1]
        assert ids_of(tmp_path, "val") == [2]

    def test_a_folder_of_held_out_tokens_only_is_whole_and_has_no_train_split(self, tmp_path):
        raw(tmp_path / "val", a__bin=list(range(20)))

        assert ids_of(tmp_path, "val") == list(range(20))
        with pytest.raises(FormatError, match="has no train split"):
            ids_of(tmp_path, "train")

    @given(n=st.integers(2, 70))
    def test_the_last_tenth_of_a_single_file_is_held_out(self, n, tmp_path_factory):
        path = raw(tmp_path_factory.mktemp("one"), corpus__bin=list(range(n))) / "corpus.bin"

        train, val = ids_of(path, "train"), ids_of(path, "val")

        assert train + val == list(range(n))
        assert len(train) == n * 9 // 10

    def test_a_named_train_file_is_whole_when_its_val_file_is_beside_it(self, tmp_path):
        raw(tmp_path, owt_train_tokens__bin=[1, 2, 3], owt_valid_tokens__bin=[4])

        assert ids_of(tmp_path / "owt_train_tokens.bin", "train") == [1, 2, 3]
        with pytest.raises(FormatError, match="owt_valid_tokens") as caught:
            ids_of(tmp_path / "owt_train_tokens.bin", "val")
        assert 'split="val"' in caught.value.hint

    def test_a_held_out_file_is_not_trained_on_by_default(self, tmp_path):
        raw(tmp_path, val__bin=[1, 2, 3])

        with pytest.raises(FormatError, match="has no train split"):
            ids_of(tmp_path / "val.bin", "train")
        assert ids_of(tmp_path / "val.bin", "val") == [1, 2, 3]

    def test_a_file_of_no_split_among_named_ones_is_refused(self, tmp_path):
        raw(tmp_path, train__bin=[1], val__bin=[2], extra__bin=[3])

        with pytest.raises(FormatError, match=r"extra\.bin says neither"):
            ids_of(tmp_path, "train")

    def test_words_inside_words_mean_nothing(self, tmp_path):
        raw(tmp_path, trained__bin=[1], interval__bin=[2])

        assert ids_of(tmp_path, "train") == [2]  # the last by name is held out

    def test_empty_shards_hold_nothing_out(self, tmp_path):
        raw(tmp_path, a__bin=[1, 2], b__bin=[3], c__bin=[])

        assert ids_of(tmp_path, "train") == [1, 2]
        assert ids_of(tmp_path, "val") == [3]

    def test_an_unknown_split_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="unknown split 'valid'"):
            tokenmill.open(tmp_path, "valid")

    def test_documents_of_a_part_are_those_of_the_whole(self, tmp_path):
        """A document that the cut goes through is two documents, one in each split."""
        documents = [[1, 50256], [2, 3, 50256], [4, 5, 6, 7, 50256]]
        folder = write_ours(tmp_path / "d", {"train": documents}, 100)
        path = folder / "train" / "shard_00000.bin"
        options = {"dtype": "uint16", "end_of_text": 50256}

        train, val = (tokenmill.open(path, split, **options) for split in ("train", "val"))

        assert [train.document(i).tolist() for i in range(3)] == [*documents[:2], [4, 5, 6, 7]]
        assert val.document(0).tolist() == [50256]


class TestDefault:
    """Data without splits of its own opens whole; data with splits opens its train split."""

    @pytest.mark.parametrize(
        "files",
        [
            {"x__bin": [1, 2, 3]},
            {"a__bin": [1], "b__bin": [2], "c__bin": [3]},
            {"train__bin": [1, 2, 3]},
            {"val__bin": [1, 2, 3]},
            {"e_train_000001__bin": [1], "e_train_000002__bin": [2, 3]},
        ],
        ids=lambda files: " ".join(files),
    )
    def test_files_of_one_kind_are_the_whole_data(self, tmp_path, files):
        raw(tmp_path, **files)

        assert ids_of(tmp_path, None) == ids_of(tmp_path, "all") == [1, 2, 3]
        assert tokenmill.open(tmp_path, dtype="uint16").split is None

    @pytest.mark.parametrize("name", ["train", "val"])
    def test_one_folder_is_the_whole_data(self, tmp_path, name):
        raw(tmp_path / name, a__bin=[1, 2], b__bin=[3])

        assert ids_of(tmp_path, None) == ids_of(tmp_path / name, None) == [1, 2, 3]

    @pytest.mark.parametrize("other", ["val", "valid", "test"])
    def test_names_of_splits_mean_train(self, tmp_path, other):
        raw(tmp_path, **{"a_train__bin": [1, 2], f"a_{other}__bin": [3]})

        assert ids_of(tmp_path, None) == [1, 2]
        assert ids_of(tmp_path / f"a_{other}.bin", None) == [3]
        assert tokenmill.open(tmp_path, dtype="uint16").split == "train"

    @pytest.mark.parametrize("other", ["val", "validation", "test"])
    def test_folders_of_splits_mean_train(self, tmp_path, other):
        raw(tmp_path / "train", a__bin=[1], b__bin=[2])
        raw(tmp_path / other, c__bin=[3])

        data = tokenmill.open(tmp_path, dtype="uint16")

        assert data[:].tolist() == [1, 2]
        assert data.split == "train"
        assert data.fingerprint == tokenmill.open(tmp_path, "train", dtype="uint16").fingerprint

    def test_splits_without_train_are_named(self, tmp_path):
        raw(tmp_path / "val", a__bin=[1])
        raw(tmp_path / "test", b__bin=[2])

        with pytest.raises(FormatError, match="has no train split") as caught:
            ids_of(tmp_path, None)
        assert 'split="val"' in caught.value.hint
        assert 'split="all"' in caught.value.hint

    def test_a_dataset_of_ours_opens_train_or_its_only_split(self, tmp_path):
        both = write_ours(tmp_path / "b", {"train": [[1, 50256]], "val": [[2, 50256]]}, 100)
        only = write_ours(tmp_path / "o", {"val": [[2, 50256]]}, 100)

        assert tokenmill.open(both)[:].tolist() == [1, 50256]
        assert tokenmill.open(both).split == "train"
        assert tokenmill.open(both, "all")[:].tolist() == [1, 50256, 2, 50256]
        assert tokenmill.open(both, "all").split is None
        assert tokenmill.open(only)[:].tolist() == [2, 50256]
        assert tokenmill.open(only).split == "val"
        with pytest.raises(FormatError, match="has no train split; it has val"):
            tokenmill.open(only, "train")

    def test_a_split_that_is_asked_for_is_held_out(self, tmp_path):
        raw(tmp_path, x__bin=range(10))

        assert ids_of(tmp_path, "train") == list(range(9))
        assert ids_of(tmp_path, "val") == [9]


class TestSplitFolders:
    """What a file belongs to does not depend on how it was named."""

    @pytest.fixture
    def tv(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        raw(tmp_path / "tv" / "train", s0__bin=[0], s1__bin=[1])
        raw(tmp_path / "tv" / "val", s2__bin=[2], s3__bin=[3])
        return tmp_path / "tv"

    @pytest.mark.parametrize("named", ["tv", "tv/*/*.bin", "tv/**/*.bin", "list", "absolute"])
    def test_a_folder_a_glob_and_a_list_give_the_same_splits(self, tv, named):
        where = {
            "list": [f"tv/{name}.bin" for name in ("val/s3", "train/s0", "val/s2", "train/s1")],
            "absolute": sorted(tv.glob("*/*.bin")),
        }.get(named, named)

        assert sorted(ids_of(where, "train")) == [0, 1]
        assert sorted(ids_of(where, "val")) == [2, 3]
        assert sorted(ids_of(where, "all")) == [0, 1, 2, 3]

    def test_files_further_down_belong_to_the_split_above_them(self, tv):
        raw(tv / "train" / "more", s4__bin=[4], s5__bin=[5])
        raw(tv / "val" / "more", s6__bin=[6], train_s7__bin=[7])

        assert sorted(ids_of("tv/**/*.bin", "train")) == [0, 1, 4, 5]
        assert sorted(ids_of("tv/**/*.bin", "val")) == [2, 3, 6, 7]
        assert ids_of("tv/train/more", "train") == [4, 5]
        with pytest.raises(FormatError, match="has no train split"):
            ids_of("tv/val/more", "train")

    @pytest.mark.parametrize("named", ["tv/train", "tv/train/", "tv/train/*.bin", "tv/train/s*"])
    def test_a_train_folder_is_whole_when_its_val_folder_is_beside_it(self, tv, named):
        assert ids_of(named, "train") == [0, 1]
        with pytest.raises(FormatError, match="is the train split") as caught:
            ids_of(named, "val")
        assert caught.value.hint == 'tokenmill.open("tv/val", split="val")'

    @pytest.mark.parametrize("named", ["tv/val", "tv/val/*.bin", "tv/val/s2.bin"])
    def test_a_val_folder_is_never_trained_on(self, tv, named):
        with pytest.raises(FormatError, match="has no train split") as caught:
            ids_of(named, "train")
        assert 'tokenmill.open("tv/train", split="train")' in caught.value.hint
        assert ids_of(named, "val") == ([2] if named.endswith("s2.bin") else [2, 3])

    def test_folders_are_known_from_inside_too(self, tv, monkeypatch):
        monkeypatch.chdir(tv / "train")
        assert ids_of(".", "train") == ids_of("*.bin", "train") == [0, 1]
        monkeypatch.chdir(tv / "val")
        with pytest.raises(FormatError, match="has no train split"):
            ids_of("s2.bin", "train")

    def test_a_val_folder_alone_is_held_out(self, tmp_path):
        raw(tmp_path / "val", a__bin=[1], b__bin=[2])

        with pytest.raises(FormatError, match="has no train split"):
            ids_of(tmp_path / "val", "train")
        assert ids_of(tmp_path / "val", "val") == [1, 2]

    def test_a_test_folder_alone_and_folders_far_above_say_nothing(self, tmp_path):
        raw(tmp_path / "test", a__bin=[1], b__bin=[2])
        raw(tmp_path / "home" / "val" / "data", a__bin=[1], b__bin=[2])

        assert ids_of(tmp_path / "test", "train") == [1]
        assert ids_of(tmp_path / "home" / "val" / "data", "train") == [1]

    def test_our_own_shards_read_as_raw_files_keep_their_splits(self, tmp_path):
        write_ours(tmp_path / "o", {"train": [[1, 50256]], "val": [[2, 50256]]}, 100)

        assert ids_of(tmp_path / "o" / "*" / "*.bin", "train") == [1, 50256]
        assert ids_of(tmp_path / "o" / "*" / "*.bin", "val") == [2, 50256]

    def test_an_index_in_a_split_folder_follows_the_same_rule(self, tmp_path):
        data = Path(__file__).parents[1] / "data" / "litdata"
        for split in ("train", "val"):
            shutil.copytree(data, tmp_path / split)

        whole = tokenmill.open(tmp_path, "all").num_tokens // 2

        assert tokenmill.open(tmp_path / "train", "train").num_tokens == whole
        with pytest.raises(FormatError, match="has no train split"):
            tokenmill.open(tmp_path / "val", "train")

    def test_a_glob_of_folders_is_refused(self, tv):
        with pytest.raises(NotADatasetError, match="matches 2 folders") as caught:
            ids_of("tv/*", "train")
        assert 'tokenmill.open("tv/*/*")' in caught.value.hint
