"""What a download does when the hub is well."""

import os
import stat
from pathlib import Path

import huggingface_hub
import pytest
from hub.conftest import QUICK, REPO, llmc_shard

import tokenmill
from tokenmill.compat import download_tokenized_data
from tokenmill.errors import DownloadError
from tokenmill.hub import download
from tokenmill.look.inspect import inspect

FIRST_THREE = [f"edu_fineweb_train_{n:06d}.bin" for n in (1, 2, 3)]


def get(folder: Path, repo: str = REPO, **settings):
    settings = {"retry": QUICK, "progress": False} | settings
    return download(repo, folder, **settings)


def names(files) -> list[str]:
    return [file.path for file in files]


def visible(folder: Path) -> dict[str, bytes]:
    """Every file a reader of the folder would see."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and ".tokenmill" not in p.parts
    }


def partials(folder: Path) -> list[Path]:
    return list((folder / ".tokenmill/hub/partial").glob("*"))


def test_the_first_three_training_shards_are_fetched(hub, shards, tmp_path):
    done = get(tmp_path / "d")

    assert visible(tmp_path / "d") == {name: shards[name] for name in FIRST_THREE}
    assert names(done.fetched) == FIRST_THREE
    assert done.commit == hub.refs[REPO, "main"]
    assert partials(tmp_path / "d") == []


def test_the_fake_hub_is_a_hub_to_huggingface_hubs_own_client(hub, shards, tmp_path, monkeypatch):
    """The call of the seed, unchanged: what it fetches is what we fetch."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    path = huggingface_hub.hf_hub_download(
        repo_id=REPO,
        filename=FIRST_THREE[0],
        repo_type="dataset",
        local_dir=tmp_path / "theirs",
        endpoint=hub.endpoint,
    )

    get(tmp_path / "ours", shards=1)

    assert Path(path).read_bytes() == visible(tmp_path / "ours")[FIRST_THREE[0]]


def test_the_call_of_the_seed_returns_its_folder(shards, tmp_path, monkeypatch):
    monkeypatch.setattr("tokenmill.hub.pull.DEFAULT_FOLDER", str(tmp_path))

    data_dir = download_tokenized_data()

    assert data_dir == f"{tmp_path}/fineweb-edu"
    assert sorted(visible(Path(data_dir))) == FIRST_THREE


def test_the_default_folder_is_the_seeds_and_another_repository_has_its_own():
    from tokenmill.hub.pull import default_folder

    assert default_folder(REPO) == "/tmp/data/fineweb-edu"
    assert default_folder("kjj0/fineweb10B-gpt2") == "/tmp/data/fineweb10B-gpt2"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"shards": 1}, FIRST_THREE[:1]),
        ({"shards": 5}, [f"edu_fineweb_train_{n:06d}.bin" for n in (1, 2, 3, 4, 5)]),
        ({"patterns": ["*_val_*"]}, ["edu_fineweb_val_000000.bin"]),
        ({"patterns": ["*.md", "folder/*"]}, ["README.md", "folder/small.json"]),
        ({"patterns": ["*_train_*"], "shards": 2}, FIRST_THREE[:2]),
    ],
)
def test_other_files_are_chosen_by_number_or_pattern(shards, tmp_path, settings, expected):
    get(tmp_path, **settings)

    assert visible(tmp_path) == {name: shards[name] for name in expected} | hf_home(tmp_path)


def hf_home(folder: Path) -> dict[str, bytes]:
    return {k: v for k, v in visible(folder).items() if k.startswith("hf_home/")}


def test_what_is_here_is_not_asked_for_again(hub, shards, tmp_path):
    get(tmp_path / "d")
    before = len(hub.bodies())

    again = get(tmp_path / "d")

    assert len(hub.bodies()) == before
    assert names(again.kept) == FIRST_THREE
    assert again.fetched == []


def test_files_another_tool_fetched_are_hashed_and_kept(hub, shards, tmp_path):
    (tmp_path / "d").mkdir()
    for name in FIRST_THREE[:2]:
        (tmp_path / "d" / name).write_bytes(shards[name])

    done = get(tmp_path / "d")

    assert names(done.kept) == FIRST_THREE[:2]
    assert names(done.fetched) == FIRST_THREE[2:]


def test_a_file_damaged_after_the_download_is_fetched_again(shards, tmp_path):
    get(tmp_path / "d")
    path = tmp_path / "d" / FIRST_THREE[0]
    path.write_bytes(b"x" + shards[FIRST_THREE[0]][1:])

    done = get(tmp_path / "d")

    assert names(done.fetched) == FIRST_THREE[:1]
    assert path.read_bytes() == shards[FIRST_THREE[0]]


def test_damage_that_keeps_size_and_time_is_found_by_force(shards, tmp_path):
    get(tmp_path / "d")
    path = tmp_path / "d" / FIRST_THREE[0]
    was = path.stat()
    path.write_bytes(b"x" + shards[FIRST_THREE[0]][1:])
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

    assert get(tmp_path / "d").fetched == []
    assert names(get(tmp_path / "d", force=True).fetched) == FIRST_THREE[:1]
    assert path.read_bytes() == shards[FIRST_THREE[0]]


def test_somebody_elses_file_is_not_overwritten_unless_forced(shards, tmp_path):
    path = tmp_path / "d" / FIRST_THREE[0]
    path.parent.mkdir()
    path.write_bytes(b"my notes")

    with pytest.raises(DownloadError, match=r"is here already, and is not .*8 bytes") as caught:
        get(tmp_path / "d")

    assert path.read_bytes() == b"my notes"
    assert "force=True" in str(caught.value)
    get(tmp_path / "d", force=True)
    assert path.read_bytes() == shards[FIRST_THREE[0]]


def test_a_moved_revision_replaces_its_own_files(hub, shards, tmp_path):
    first = get(tmp_path / "d")
    changed = shards | {FIRST_THREE[1]: llmc_shard(99)}
    hub.commit(REPO, changed)

    second = get(tmp_path / "d")

    assert first.commit != second.commit
    assert names(second.fetched) == [FIRST_THREE[1]]
    assert visible(tmp_path / "d") == {name: changed[name] for name in FIRST_THREE}


def test_a_commit_stays_what_it_is_when_the_revision_moves(hub, shards, tmp_path):
    old = hub.refs[REPO, "main"]
    hub.commit(REPO, shards | {FIRST_THREE[1]: llmc_shard(99)})

    done = get(tmp_path / "d", revision=old)

    assert done.commit == old
    assert visible(tmp_path / "d") == {name: shards[name] for name in FIRST_THREE}


def test_offline_with_everything_here_no_request_is_made(hub, shards, tmp_path, monkeypatch):
    get(tmp_path / "d")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before = len(hub.requests)

    done = get(tmp_path / "d", shards=2)

    assert len(hub.requests) == before
    assert names(done.kept) == FIRST_THREE[:2]


def test_offline_names_what_is_missing(hub, shards, tmp_path, monkeypatch):
    get(tmp_path / "d")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    with pytest.raises(DownloadError, match=r"edu_fineweb_train_000004.bin of .*OFFLINE is set"):
        get(tmp_path / "d", shards=4)
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE is set"):
        get(tmp_path / "elsewhere")


def test_a_hub_that_is_gone_does_not_matter_when_everything_is_here(hub, shards, tmp_path):
    get(tmp_path / "d")
    hub.fault("api:info", "refuse", times=99)

    assert names(get(tmp_path / "d").kept) == FIRST_THREE


def test_a_read_only_folder_with_everything_in_it_is_enough(shards, tmp_path):
    get(tmp_path / "d")
    for path in [*(tmp_path / "d").rglob("*"), tmp_path / "d"]:
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))

    try:
        assert names(get(tmp_path / "d", force=True).kept) == FIRST_THREE
    finally:
        for path in [tmp_path / "d", *(tmp_path / "d").rglob("*")]:
            path.chmod(path.stat().st_mode | stat.S_IWUSR)


def test_a_dry_run_reports_and_changes_nothing(hub, shards, tmp_path):
    done = get(tmp_path / "d", dry_run=True)

    assert names(done.fetched) == FIRST_THREE
    assert sum(file.num_bytes for file in done.fetched) == 3 * (1024 + 8000)
    assert not (tmp_path / "d").exists()
    assert hub.bodies() == []


def test_a_dataset_of_ours_is_fetched_whole_and_its_manifest_comes_last(hub, tmp_path):
    files = {
        "train/shard_00000.bin": bytes(5000),
        "train/shard_00000.ends": bytes(16),
        "dataset_metadata.json": b"{}",
        "empty.txt": b"",
        ".gitattributes": b"*.bin filter=lfs\n",
    }
    hub.commit("ann/corpus", files)
    fault = hub.fault("train/shard_00000.bin", "status", status=404, times=99)

    with pytest.raises(DownloadError):
        get(tmp_path / "d", "ann/corpus", workers=1)
    assert "dataset_metadata.json" not in visible(tmp_path / "d")

    fault.times = 0
    get(tmp_path / "d", "ann/corpus")
    files.pop(".gitattributes")
    assert visible(tmp_path / "d") == files


def test_what_was_fetched_opens_with_the_last_shard_held_out(hub, shards, tmp_path):
    folder = download_tokenized_data(tmp_path / "d", retry=QUICK, progress=False)

    train, val = tokenmill.open(folder, "train"), tokenmill.open(folder, "val")

    assert [shard.file for shard in train.shards] == FIRST_THREE[:2]
    assert [shard.file for shard in val.shards] == FIRST_THREE[2:]
    assert train.tokens(0, 4000).tobytes() == shards[FIRST_THREE[0]][1024:]
    [origin] = inspect(folder).fetched
    assert origin == {"repo": REPO, "revision": "main", "commit": hub.refs[REPO, "main"]}


def test_a_listing_in_pages_is_read_to_its_end(hub, shards, tmp_path):
    hub.page_size = 2

    assert names(get(tmp_path / "d", shards=5).fetched)[-1] == "edu_fineweb_train_000005.bin"


def test_the_token_goes_to_the_hub_and_never_to_the_store(hub, shards, tmp_path):
    get(tmp_path / "d", shards=1)

    sent = {r.server: r.headers.get("authorization") for r in hub.bodies(FIRST_THREE[0])}
    assert sent == {"hub": "Bearer hf_SecretOfAnn123456", "store": None}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shards": 0}, "shards is 0"),
        ({"workers": 0}, "workers is 0"),
        ({"repo": "a/b/c"}, "'a/b/c' is not a repository name"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_asked(hub, tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        get(tmp_path / "d", **settings)

    assert [r for r in hub.requests if "/api" in r.path] == []


def test_a_shard_limit_makes_no_sense_for_a_dataset_of_ours(hub, tmp_path):
    hub.commit("ann/corpus", {"dataset_metadata.json": b"{}", "train/shard_00000.bin": b"ab"})

    with pytest.raises(ValueError, match="fetched whole"):
        get(tmp_path / "d", "ann/corpus", shards=1)


def test_progress_goes_to_stderr_a_line_a_file(shards, tmp_path, capsys):
    download_tokenized_data(tmp_path / "d", retry=QUICK)

    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "fetching 3 files, 27 kB"
    assert sorted(line.split()[1] for line in err.splitlines()[1:]) == FIRST_THREE


@pytest.mark.parametrize("progress", [False, True])
def test_what_is_done_is_shown_unless_it_is_not_wanted(hub, shards, tmp_path, capsys, progress):
    download(REPO, tmp_path / "d", shards=1, progress=progress)

    assert bool(capsys.readouterr().err) == progress
