"""Which files a request means."""

import pytest

from tokenmill.errors import DownloadError
from tokenmill.hub.remote_files import HubFile, choose


def listing(*paths: str) -> list[HubFile]:
    return [HubFile(path, 10, "sha256:" + "0" * 64) for path in paths]


def chosen(files: list[HubFile], **settings) -> list[str]:
    return [file.path for file in choose(files, **settings)]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        # modded-nanogpt's repositories ship a validation shard: it is not a training shard
        (
            ["fineweb_val_000000.bin", *(f"fineweb_train_{n:06d}.bin" for n in range(1, 6))],
            [f"fineweb_train_{n:06d}.bin" for n in (1, 2, 3)],
        ),
        # build-nanogpt's are .npy; order is by name, whatever the order of the listing
        (
            ["edufineweb_train_000002.npy", "edufineweb_train_000001.npy", "README.md"],
            ["edufineweb_train_000001.npy", "edufineweb_train_000002.npy"],
        ),
        (["val/a.bin", "train/b.bin", "train/a.bin"], ["train/a.bin", "train/b.bin"]),
        (["valley.bin", "contest.bin", "my-val.bin"], ["contest.bin", "valley.bin"]),
    ],
)
def test_without_patterns_the_first_training_shards_are_meant(there, expected):
    assert chosen(listing(*there)) == expected


def test_too_few_shards_are_an_error_that_counts_them():
    with pytest.raises(DownloadError, match="holds 2 training shards, not 5"):
        choose(listing("a_train_1.bin", "a_train_2.bin"), shards=5)


def test_a_repository_without_shards_says_what_it_holds():
    with pytest.raises(DownloadError) as caught:
        choose(listing("a.parquet", "b.parquet"), where="ann/text")

    assert str(caught.value).startswith(
        "ann/text holds no token shards\n\nhint: it holds a.parquet"
    )


def test_a_pattern_without_a_match_is_repeated_in_the_error():
    with pytest.raises(DownloadError, match=r"no file of ann/x matches \['\*\.bim'\]"):
        choose(listing("a.bin"), patterns=["*.bim"], where="ann/x")
