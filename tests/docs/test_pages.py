"""What our pages show runs as it is shown there, and what they link to exists."""

import os
import re
import shutil
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from docs_blocks import PAGES, ROOT, blocks_of, words_of
from spec_vectors import PAGES as SPECIFICATIONS
from spec_vectors import on_page, vectors

from tokenmill.cli import tokenmill

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
# Programs that pages name and tests do not have; what they are given is not checked.
OTHERS = {"pip", "less", "sbatch", "parallel", "torchrun", "hf", "litgpt"}
# Where the files of this repository are for a reader who has none of them.
OURS = re.compile(
    r"https://(github\.com/tokenmill/tokenmill/(blob|tree)|raw\.githubusercontent\.com/tokenmill/tokenmill)/main/"
)
MAY_FAIL = {"verify": 12}  # shown because it finds a fault


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_in_order(page, folder):
    if page == "README.md":
        shutil.rmtree(folder / "data")  # it shows how to make it
    names = {}
    for block in blocks_of(page):
        where = f"{page}:{block.line}"
        exec(compile(block.first, where, "exec"), names)
        if block.language == "python":
            code = compile(block.code, where, "exec")
            if not block.not_run:
                exec(code, names)
            continue
        for command, shown in block.commands:
            if block.not_run or words_of(command)[0] in OTHERS:
                check_command(command, where)
            else:
                check_output(where, command, shown, run(command, where))


def run(command, where):
    """What a command prints, on both streams; pipes and globs run in a shell."""
    words = words_of(command)
    assert words[0] == "tokenmill", where
    if set(command) & set("*|>"):
        shell = f'tokenmill() {{ "{sys.executable}" -m tokenmill "$@"; }}\n{command}'
        done = subprocess.run(
            ["bash", "-c", shell], env=ENVIRONMENT, capture_output=True, text=True, timeout=120
        )
        code, printed, error = done.returncode, done.stdout + done.stderr, ""
    else:
        result = CliRunner().invoke(tokenmill, words[1:])
        code, printed, error = result.exit_code, result.output, result.exception
    expected = MAY_FAIL.get(words[1], 0)
    assert code in (0, expected), f"{where}: {command}\n{printed}\n{error}"
    return printed


def check_output(where, command, shown, printed):
    """Each line that is shown was printed, but for its numbers."""
    lines = {without_numbers(line) for line in printed.splitlines()}
    for line in shown:
        if line.strip() not in ("", "..."):
            assert without_numbers(line) in lines, (
                f"{where}: {command}\n{line}\n\nnot in\n{printed}"
            )


def without_numbers(line):
    """`3 shards` and `1 shard`, `137 GB` and `487 kB`, `3,17-18` and `1` count as equal."""
    line = re.sub(r"N (shard|unit)s", r"N \1", re.sub(r"\d[\d,.]*", "N", line))
    return " ".join(re.sub(r"N [kMGT]B", "N B", re.sub(r"N(-N)+", "N", line)).split())


def check_command(command, where):
    """A command that is not run still has only flags that exist."""
    program, *words = words_of(command)
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in words), where
    elif program == "python":
        assert (ROOT / words[0]).exists(), where
    elif program not in OTHERS:
        assert program == "tokenmill", f"{where}: {command}"
        words = [word for word in words if not word.startswith((">", "|"))]
        with click.Context(tokenmill, info_name="tokenmill", **tokenmill.context_settings) as ctx:
            name, *rest = words
            tokenmill.get_command(ctx, name).make_context(name, rest, parent=ctx)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """In docs/ and the README only inside docs/: a site and an index show no other files."""
    text = (ROOT / page).read_text()
    targets = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    for target in targets:
        if OURS.match(target):
            assert (ROOT / OURS.sub("", target)).exists(), target
        elif not target.startswith("https://"):
            file = ((ROOT / page).parent / target).resolve()
            assert file.exists(), target
            shown = ROOT / "docs" if page.startswith("docs/") else ROOT
            assert file.is_relative_to(shown), target
            assert page != "README.md", target


@pytest.mark.parametrize("page", sorted(set(SPECIFICATIONS.values())))
def test_values_that_a_page_shows_are_among_the_test_vectors(page):
    known = [v for section, of in SPECIFICATIONS.items() if of == page for v in vectors(section)]

    assert len(on_page(page)) >= 3
    assert set(on_page(page)) <= set(known)


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_whole(page):
    """A row after an empty line, or text right after a table, would be shown as something else."""
    lines = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.M | re.S).splitlines()
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        if line.startswith("|") and not before.startswith("|"):
            assert before == "", f"{page}: {before}"
            assert re.fullmatch(r"\|(-+\|)+", after), f"{page}: no head above {line}"
        assert not (before.startswith("|") and line and line[0] != "|"), f"{page}: {line}"


def test_few_blocks_are_not_run_and_each_says_why():
    blocks = [block for page in PAGES for block in blocks_of(page)]
    left_out = [block for block in blocks if block.not_run]

    assert len(blocks) >= 30
    assert len(left_out) <= len(blocks) // 3
    assert all(len(block.not_run) > 10 for block in left_out)


def test_every_block_of_the_pages_is_of_a_known_kind():
    """A fence without a language, or with a typing error in it, would not be run."""
    for page in PAGES:
        fences = re.findall(r"^```(\w*)$", (ROOT / page).read_text(), re.MULTILINE)
        assert set(fences[::2]) <= {"python", "console", "json", "help", ""}, page
        assert set(fences[1::2]) <= {""}, page


def test_a_block_that_is_wrong_is_found(folder):
    with pytest.raises(AssertionError, match="no such line"):
        check_output("page:1", "tokenmill x", ["no such line"], "another line\n")
    with pytest.raises(click.NoSuchOption):
        check_command("tokenmill verify data/corpus --fully", "page:1")
    with pytest.raises(AssertionError, match="page:1"):
        run("tokenmill verify nowhere", "page:1")
