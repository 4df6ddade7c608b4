"""The site builds, asks no other host for anything, and has every public name and command."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
from docs_blocks import ROOT

from tokenmill.cli import COMMANDS, tokenmill

pytest.importorskip("zensical", reason='the site needs the extra "docs"')
pytest.importorskip("mkdocstrings_handlers.python", reason='the site needs the extra "docs"')

API = (ROOT / "docs" / "reference" / "api.md").read_text()
MODULES = ["", ".preparation", ".edits", ".augment", ".torch", ".compat", ".train"]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder / 'src'}:{folder / 'scripts'}"},
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """What the site is made of, away from the repository."""
    folder = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "zensical.toml", folder)
    for name in ("docs", "scripts", "src"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def site(tree):
    done = build(tree)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return tree / "site"


class Requests(HTMLParser):
    """The addresses that a browser fetches by itself when it shows a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        names = ("src", "srcset", "poster", "data") + (() if tag == "a" else ("href",))
        self.found += [value or "" for name, value in attrs if name in names]
        self.found += re.findall(r"url\(([^)]*)\)", dict(attrs).get("style") or "")


def test_every_page_is_there_and_can_be_searched(site):
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    search = (site / "search.json").read_text()

    assert len(pages) > 15
    for page in pages:
        folder = page.parent if page.stem == "index" else page.with_suffix("")
        assert (site / folder / "index.html").exists(), page
        assert page.stem == "index" or str(folder) in search, page


def test_the_navigation_has_every_page_once():
    pages = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    config = (ROOT / "zensical.toml").read_text()

    assert sorted(re.findall(r'"([\w/]+\.md)"', config)) == sorted(pages)


def test_no_page_asks_another_host(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        outside = [each for each in Requests(text).found if re.match(r"\s*(https?:)?//", each)]
        assert outside == [], page
        # Where this is shown, its script asks GitHub for the stars of the repository.
        assert 'data-md-component="source"' not in text, page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import\s)[\"']?\s*(https?:)?//", sheet.read_text()), sheet


def test_an_address_that_a_page_asks_for_is_found():
    page = '<a href="https://a">x</a><img src="//b"><p style="background:url(https://c)">'

    assert Requests(page).found == ["//b", "https://c"]


@pytest.mark.parametrize("target", ["nowhere.md", "index.md#no-such-heading"])
def test_a_link_that_leads_nowhere_fails_the_build(target, tree, tmp_path):
    shutil.copy(tree / "zensical.toml", tmp_path)
    for name in ("scripts", "src"):
        (tmp_path / name).symlink_to(tree / name)
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "index.md"
    page.write_text("# Start\n\n[here](index.md#start)\n")
    assert build(tmp_path).returncode == 0

    page.write_text(f"# Start\n\n[nowhere]({target})\n")
    assert build(tmp_path).returncode != 0


def public_names():
    for home in MODULES:
        module = importlib.import_module(f"tokenmill{home}")
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name)
            if callable(value) and value.__module__.startswith("tokenmill") and name[0] != "_":
                yield f"tokenmill{home}.{name}"


@pytest.mark.parametrize("name", list(public_names()))
def test_every_public_name_is_on_the_page_with_an_example_and_its_docstring(name, site):
    # A name that differs in the module which defines it is a heading there.
    _, _, after = re.split(rf"^(::: |      heading: ){re.escape(name)}$", API, flags=re.M)

    assert "```python" in re.split(r"^:::", after, maxsplit=1, flags=re.MULTILINE)[0]
    html = (site / "reference" / "api" / "index.html").read_text()
    heading = re.search(rf"<h3 id=[^>]*>(?:\s|<[^>]*>)*{re.escape(name)}\b.*?<h[234]", html, re.S)
    assert heading
    assert "<p>" in heading[0]


def test_settings_that_a_decorator_adds_are_shown_with_their_defaults(site):
    text = re.sub(r"<[^>]*>", "", (site / "reference" / "api" / "index.html").read_text())

    assert "tokens_per_shard: int = 10000000" in text
    assert "SettingsKeywords" not in text


def commands():
    with click.Context(tokenmill, info_name="tokenmill") as context:
        for name in tokenmill.list_commands(context):
            command = tokenmill.get_command(context, name)
            yield f"tokenmill {name}"
            if isinstance(command, click.Group):
                yield from (f"tokenmill {name} {each}" for each in command.list_commands(context))


def test_every_command_is_on_the_page_with_its_help(site):
    text = (ROOT / "docs" / "reference" / "commands.md").read_text()
    html = (site / "reference" / "commands" / "index.html").read_text()

    assert re.findall(r"^```help\n(.+)\n```$", text, re.MULTILINE) == ["tokenmill", *commands()]
    assert all(f"\n## {title}\n" in text for title in COMMANDS)
    assert html.count("Usage: tokenmill ") == text.count("```help")
