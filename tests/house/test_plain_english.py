"""Plain English in code, messages and docs, and one spelling for our flags.

The words below are correct English and hard to read for many: CONTRIBUTING.md, "How we write".
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    *(ROOT / "src").rglob("*.py"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]
# A word, and what to write instead.
INSTEAD = {
    r"anew": "again",
    r"mend(s|ed)?": "repair, fix",
    r"without a word": "silently",
    r"go(es)? on": "continue, resume",
    r"behind": "after",
    r"makes? last": "sync",
    r"told by": "detected by, reported by",
    r"sisters?": "other, neighbour",
    r"fates?": "decision",
}
# Uses that are the plain word: a proxy is in front of a server, and the server behind it.
ALLOWED = ["behind a proxy", "behind a firewall"]
# Flags of other projects' commands that our messages and scripts name.
FOREIGN = {
    *("append-eod", "dataset-impl", "job-name", "cpus-per-task", "mem-per-cpu", "gpus-per-node"),
    *("kill-on-bad-exit", "ntasks-per-node", "open-mode", "exclude-standard"),
    *("dataloader-type", "seq-length", "reset-position-ids", "eod-mask-loss"),  # Megatron
}


@pytest.mark.parametrize("word", INSTEAD)
def test_words_that_must_be_decoded_are_not_used(word):
    pattern = re.compile(rf"\b{word}\b".replace(" ", r"\s+"), re.IGNORECASE)
    found = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        for phrase in ALLOWED:
            text = text.replace(phrase, "")
        found += [f"{path.relative_to(ROOT)}: {match[0]!r}" for match in pattern.finditer(text)]

    assert not found, f"write {INSTEAD[word]!r}"


def test_our_flags_are_spelled_with_an_underscore():
    found = {
        f"{path.relative_to(ROOT)}: --{flag}"
        for path in FILES
        for flag in re.findall(r"(?<![\w-])--([a-z]+(?:-[a-z]+)+)", path.read_text("utf-8"))
        if flag not in FOREIGN
    }

    assert not found
