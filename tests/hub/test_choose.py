"""Which files a request means, and what a message may hold."""

import pytest

from tokenmill.base.human import human_bytes
from tokenmill.base.progress import Bars
from tokenmill.base.redact import redact
from tokenmill.base.retry import seconds_asked_for
from tokenmill.errors import DownloadError
from tokenmill.hub.remote_files import RemoteFile, choose
from tokenmill.hub.transfers import Transfers


def listing(*paths: str) -> list[RemoteFile]:
    return [RemoteFile(path, 10, "sha256:" + "0" * 64) for path in paths]


def chosen(files: list[RemoteFile], **settings) -> list[str]:
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("token hf_AbCdEfGh12345678 sent", "token *** sent"),
        ("Authorization: Bearer abc.def-1", "Authorization: ***"),
        ("https://ann:secret@hub.example/x", "https://hub.example/x"),
        ("at 'https://s3.example/x?X-Amz-Signature=ab&b=c' no", "at 'https://s3.example/x' no"),
        ("https://cdn.example/x?Policy=ab~&Key-Pair-Id=K", "https://cdn.example/x"),
        ("nothing to hide: 3 files at 10:30", "nothing to hide: 3 files at 10:30"),
    ],
)
def test_secrets_are_cut_out_of_messages(text, expected):
    assert redact(text) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"ratelimit": '"api";r=0;t=57'}, 57.0),
        ({"ratelimit": '"api";r=3;t=57'}, None),
        ({}, None),
    ],
)
def test_the_server_is_understood_when_it_asks_to_wait(headers, expected):
    assert seconds_asked_for(headers) == expected


def test_sizes_read_as_people_say_them():
    sizes = [0, 999, 1000, 9_949, 9_951, 99_999, 999_499, 999_600, 200_001_024, 10**12]

    assert [human_bytes(n) for n in sizes] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "9.9 kB",
        "10 kB",
        "100 kB",
        "999 kB",
        "1.0 MB",
        "200 MB",
        "1.0 TB",
    ]


def test_the_bars_add_up_when_a_file_starts_again():
    one, two = RemoteFile("one.bin", 100, "git:1"), RemoteFile("two.bin", 50, "git:2")
    with Bars() as bars:
        bars.seconds_between = lambda: 0.0
        transfers = Transfers(bars, [one, two])
        transfers.start(one, 30)  # resumed
        transfers.advance(one, 20)
        transfers.start(one, 0)  # what had come was wrong
        transfers.advance(one, 100)
        transfers.end(one)
        transfers.start(two, 0)
        transfers.advance(two, 25)
        total, current = bars._rich.tasks

    assert (total.completed, total.total, total.description) == (125, 150, "1 of 2 files")
    assert (current.completed, current.description) == (25, "two.bin")
