"""prepare() gives what a naive program gives that holds every document whole, in any plan."""

import json
import tempfile
from pathlib import Path

from flat import prepare
from hypothesis import given, settings
from hypothesis import strategies as st
from preparation import oracle

SEPARATOR = "<|cut|>"

words = st.sampled_from(
    [
        "the",
        "quick",
        "fox",
        "x",
        "it's",
        "42",
        "\u00e9",
        "e\u0301",
        "\u4e2d",
        "\u00a0",
        "\ufeff",
        "\x00",
        "\x07",
        "\u0085",
        "\t",
        "  ",
        "\r",
        "<|endoftext|>",
        "a" * 30,
        "\U0001f600",
    ]
)
lines = st.lists(words, max_size=7).map(" ".join) | st.sampled_from(
    ["", " ", "}", "def function(argument):", "A heading of some length", "word " * 20]
)
multi_line = st.lists(lines, max_size=8).map("\n".join)


@st.composite
def corpora(draw):
    """(kind, documents): what the files hold, and how they are to be cut into documents."""
    kind = draw(st.sampled_from(["file", "jsonl", "separator", "line", "paragraph"]))
    if kind == "line":
        documents = draw(st.lists(lines, max_size=40))
    elif kind == "paragraph":
        black = st.lists(lines.filter(lambda line: line.strip(" \t\r")), min_size=1, max_size=6)
        documents = draw(st.lists(black.map("\n".join), max_size=20))
    else:
        documents = draw(st.lists(multi_line, max_size=40 if kind == "jsonl" else 12))
    return kind, documents


def write_corpus(folder, kind, documents):
    """Write the documents as files; return the settings that read them back."""
    if kind == "file":
        for number, text in enumerate(documents):
            (folder / f"{number:03d}.txt").write_bytes(text.encode())
        return {}
    if kind == "jsonl":
        rows = (json.dumps({"text": text}) + "\n" for text in documents)
        (folder / "a.jsonl").write_text("".join(rows))
        return {}
    between = {"separator": SEPARATOR, "line": "\n", "paragraph": "\n\n"}[kind]
    # What ends the last document begins no further one; so an empty last one is counted.
    (folder / "a.txt").write_bytes("".join(text + between for text in documents).encode())
    return {"separator": SEPARATOR} if kind == "separator" else {"document_is": kind}


rules = st.fixed_dictionaries(
    {
        "clean": st.booleans(),
        "dedup": st.sampled_from(["lines", "documents", "none"]),
        "val_fraction": st.sampled_from([0.0, 0.1, 0.5, 0.9]),
        "long_line": st.sampled_from([1, 8, 20, 50, 1000, 8 << 20]),
        "min_chars": st.sampled_from([0, 1, 4, 16]),
    }
)
unit_sizes = st.one_of(st.integers(1, 40), st.integers(40, 4000), st.sampled_from([64 << 20]))


def check(corpus, rule, unit_bytes, per_shard, tokenizer, encode, end_of_text):
    kind, documents = corpus
    rule = dict(rule)
    with tempfile.TemporaryDirectory(dir=oracle.IN_MEMORY) as name:
        folder = Path(name) / "in"
        folder.mkdir()
        how = write_corpus(folder, kind, documents)
        wanted, accounts = oracle.expected(documents, encode, end_of_text, **rule)
        rule["dedup_min_chars"] = rule.pop("min_chars")
        if not documents or not wanted:
            return
        out = Path(name) / "out"
        size = sum(path.stat().st_size for path in folder.iterdir())
        unit_bytes = max(unit_bytes, size // 50)  # many units, but not thousands
        summary = prepare(
            folder,
            out,
            workers=1,
            unit_bytes=unit_bytes,
            tokens_per_shard=per_shard,
            **tokenizer,
            **how,
            **rule,
        )
        assert oracle.read_dataset(out) == wanted
        found = oracle.accounts_of(out)
        assert {name: found[name] for name in accounts} == accounts
        assert summary.documents_in == summary.documents_written + sum(summary.dropped.values())
        assert {path.name for path in out.iterdir()} <= {
            "dataset_metadata.json", "tokenizer_state.json", "README.md", "train", "val"
        }  # fmt: skip


@given(corpora(), rules, unit_sizes, st.integers(1, 500))
@settings(max_examples=50, deadline=None)
def test_small_ranks(small, corpus, rule, unit_bytes, per_shard):
    tokenizer, encode = small
    check(corpus, rule, unit_bytes, per_shard, tokenizer, encode, int(tokenizer["end_of_text"]))


@given(corpora(), rules, unit_sizes, st.integers(1, 500))
@settings(max_examples=50, deadline=None)
def test_bytes_which_may_be_cut_anywhere(corpus, rule, unit_bytes, per_shard):
    check(corpus, rule, unit_bytes, per_shard, {"tokenizer": "bytes"}, lambda t: [*t.encode()], 256)
