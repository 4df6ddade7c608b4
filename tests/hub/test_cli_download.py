"""`tokenmill download` as a user types it."""

import json
import os
import subprocess
import sys

import pytest
from hub.conftest import REPO
from hub.test_download import FIRST_THREE, visible

from tokenmill.cli import main


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["download", *args])
    return int(stop.value.code or 0)


def test_the_command_fetches_and_says_what_it_did(shards, tmp_path, capsys):
    assert run("-o", str(tmp_path / "d")) == 0

    out, err = capsys.readouterr()
    assert sorted(visible(tmp_path / "d")) == FIRST_THREE
    assert out == ""
    assert f"{tmp_path}/d: fetched 3; {REPO} at " in err


def test_json_names_the_commit_and_each_file_with_its_hash(hub, shards, tmp_path, capsys):
    assert run(REPO, "-o", str(tmp_path / "d"), "--shards", "1", "--json", "-q") == 0

    result = json.loads(capsys.readouterr().out)
    assert result["commit"] == hub.refs[REPO, "main"]
    assert [f["path"] for f in result["fetched"]] == FIRST_THREE[:1]
    assert result["fetched"][0]["digest"].startswith("sha256:")


def test_a_dry_run_lists_what_is_here_and_what_is_not(shards, tmp_path, capsys):
    run("-o", str(tmp_path / "d"), "--shards", "1", "-q")
    capsys.readouterr()

    assert run("-o", str(tmp_path / "d"), "--shards", "2", "--dry_run") == 0

    assert capsys.readouterr().out.splitlines() == [
        f"here      9.0 kB  {FIRST_THREE[0]}",
        f"fetch     9.0 kB  {FIRST_THREE[1]}",
    ]


def test_an_error_is_a_line_with_a_hint_and_exit_code_1(hub, shards, tmp_path, capsys):
    assert run("ann/nowhere", "-o", str(tmp_path / "d")) == 1

    err = capsys.readouterr().err
    assert err.startswith(
        "error: ann/nowhere at revision main: there is no such dataset repository"
    )
    assert "\n\nhint: " in err


def test_a_user_who_set_nothing_reaches_the_network_and_no_further():
    """No variable of a hub is set and nothing listens at the proxy: a typed error, no traceback."""
    nowhere = "http://127.0.0.1:9"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    command = [sys.executable, "-m", "tokenmill", "download", "--dry_run", "--deadline", "0.1"]

    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**kept, "HTTPS_PROXY": nowhere, "https_proxy": nowhere, "NO_PROXY": ""},
    )

    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(f"error: {REPO} at revision main: ConnectError: ")
    assert "Traceback" not in done.stderr


def test_a_dataset_goes_up_and_comes_down_by_the_commands(hub, tmp_path):
    """In processes of their own, which see the variables before huggingface_hub is imported."""
    (tmp_path / "a.txt").write_text("hello\n" * 500)
    made, back = tmp_path / "made", tmp_path / "back"

    for command in (
        ["prepare", tmp_path / "a.txt", "-o", made, "--tokenizer", "bytes", "--workers", "1"],
        ["upload", made, "ann/corpus", "--no_sample"],
        ["download", "ann/corpus", "-o", back],
    ):
        done = subprocess.run([sys.executable, "-m", "tokenmill", *command], capture_output=True)
        assert done.returncode == 0, done.stderr

    shards = {name: data for name, data in visible(made).items() if name != "README.md"}
    assert {name: visible(back)[name] for name in shards} == shards
