"""Masks of chat that are wrong, as other projects have made them: each is named by `verify`."""

import numpy as np
import pytest
from chat_data import MARKED, make_rows, tokenizer_json, write_folder, write_rows

import tokenmill
from tokenmill.preparation import Chat

TOKENS = [  # of which one alone may end a text
    {**token, "content": token["content"].replace("</s>", "<x>")}
    for token in tokenizer_json()["added_tokens"]
]


@pytest.fixture(scope="module")
def chats(tmp_path_factory):
    """A dataset of chat with a sound mask, and its documents."""
    folder = tmp_path_factory.mktemp("chats")
    tokenizer = write_folder(folder / "tok", MARKED["chatml"], added_tokens=TOKENS)
    path = write_rows(folder / "a.jsonl", make_rows("llama", 40, seed=9))
    wanted = {"val_fraction": 0.0, "workers": 1}
    tokenmill.prepare(path, folder / "d", tokenizer=tokenizer, chat=Chat(), **wanted)
    data = tokenmill.open(folder / "d")
    ranges = [data.document_range(n) for n in range(data.num_documents)]
    return data, [(data.tokens(*edges), data.column("loss", *edges)) for edges in ranges]


def names(path, **options):
    return [trap.name for trap in tokenmill.verify(path, **options).traps]


def test_a_sound_mask_has_no_trap(chats):
    data, _ = chats

    assert names(data.path) == []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda ids, loss, end: np.zeros_like(loss), "no-target"),
        (lambda ids, loss, end: np.ones_like(loss), "all-targets"),
        (lambda ids, loss, end: loss & np.append(False, loss[:-1]), "first-token-not-learned"),
        (lambda ids, loss, end: loss & ~ends_of_turns(ids, end), "end-of-turn-not-learned"),
    ],
)
def test_a_wrong_mask_is_named(change, name, chats, tmp_path):
    data, documents = chats
    end = data.tokenizer.special_ids["<|im_end|>"]
    wrong = [{"ids": ids, "loss": change(ids, loss, end)} for ids, loss in documents]
    tokenmill.write_tokens(wrong, tmp_path / "d", tokenizer=data.tokenizer)

    assert names(tmp_path / "d") == [name]


def ends_of_turns(ids, end):
    """The end of a turn, and the newline after it."""
    is_end = ids == end
    return is_end | np.append(False, is_end[:-1])


def test_another_template_is_named(chats, tmp_path):
    data, _ = chats
    changed = MARKED["chatml"] + "{{- ' ' }}"
    same = write_folder(tmp_path / "same", MARKED["chatml"], added_tokens=TOKENS)
    other = write_folder(tmp_path / "other", changed, added_tokens=TOKENS)

    assert names(data.path, tokenizer=same) == []
    found = names(data.path, tokenizer=other)
    assert found == ["other-template"]


def test_targets_are_shown(chats):
    from tokenmill.look.show import render, show_document

    data, documents = chats
    excerpt = show_document(data, 0)

    assert [token.target for token in excerpt.tokens] == documents[0][1].tolist()
    assert excerpt.to_json()["tokens"][-1]["target"] is False
    plain = render(excerpt.tokens, color=False)
    assert plain.count("+") >= documents[0][1].sum()
