"""troubleshooting.md covers every error we raise and every trap that `verify` finds."""

import re
from pathlib import Path

import pytest

import tokenmill.look
from tokenmill import errors
from tokenmill.errors import TokenmillError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "troubleshooting.md").read_text()
LOOK = Path(tokenmill.look.__file__).parent

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, TokenmillError)
]
FINDINGS = sorted(
    {
        name
        for path in LOOK.glob("*.py")
        for name in re.findall(r'Trap\(\s*"([a-z-]+)"', path.read_text())
    }
)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_error_is_explained_and_its_exit_code_is_listed(error):
    assert f"`{error.__name__}`" in PAGE or error is TokenmillError
    assert f"\n| {error.exit_code} |" in PAGE


def test_every_trap_is_explained():
    assert len(FINDINGS) >= 14
    assert [name for name in FINDINGS if f"`{name}`" not in PAGE] == []


def test_no_error_is_explained_that_does_not_exist():
    named = set(re.findall(r"`(\w+Error)`", PAGE)) - {"ValueError"}

    assert named <= {error.__name__ for error in CLASSES}


def test_flags_that_are_named_exist():
    known = (ROOT / "src" / "tokenmill").rglob("*.py")
    source = "".join(path.read_text() for path in known)
    for flag in re.findall(r"`--([a-z_]+)", PAGE):
        assert f"--{flag}" in source or re.search(rf"^    {flag}: ", source, re.MULTILINE), flag
