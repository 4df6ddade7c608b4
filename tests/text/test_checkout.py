"""With gitignore, folders and globs give what git itself would add."""

import subprocess

import pytest

import tokenmill
from tokenmill.errors import PrepareError
from tokenmill.preparation import Details
from tokenmill.text.inputs.sources import search


def git(folder, *words):
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "checkout"
    for name in ("a.py", "build/b.py", "src/c.py", "src/d.log", "kept.log", "sub/e.py", "sub/f.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / ".gitignore").write_text("build/\n*.log\n")
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", "-f", "kept.log")
    git(root, "init", "-q", "sub")  # a checkout in a checkout
    (root / "sub" / ".gitignore").write_text("f.py\n")
    return root


def names(*inputs, **options):
    sources, skipped = search([str(entry) for entry in inputs], gitignore=True, **options)
    return [source.name for source in sources], skipped


def test_folders_and_globs_leave_out_what_git_ignores(checkout):
    taken, skipped = names(checkout)

    assert taken == ["a.py", "kept.log", "src/c.py", "sub/e.py"]
    assert {path.rpartition("checkout/")[2] for path in skipped} >= {
        *("build/b.py", "src/d.log", "sub/f.py")
    }
    assert names(checkout / "**" / "*.py")[0] == ["a.py", "src/c.py", "sub/e.py"]


def test_a_file_that_is_named_is_taken(checkout):
    assert names(checkout / "build" / "b.py", checkout / "src")[0] == ["build/b.py", "src/c.py"]


def test_what_is_all_ignored_or_no_checkout_is_an_error(checkout, tmp_path):
    with pytest.raises(PrepareError, match=r"git ignores all 1 files found in .*build"):
        names(checkout / "build")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.txt").write_text("a")
    with pytest.raises(PrepareError, match=r"git cannot list the files of .*plain"):
        names(tmp_path / "plain")


def test_it_is_recorded_only_where_it_is_asked_for(checkout, tmp_path):
    for gitignore in (True, None):
        out = tmp_path / f"out-{gitignore}"
        tokenmill.prepare(checkout / "src", out, details=Details(gitignore=gitignore))
        card = (out / "README.md").read_text()
        assert ("gitignore" in (out / "dataset_metadata.json").read_text()) == bool(gitignore)
        assert ("--gitignore" in card) == bool(gitignore)
