"""A stored tokenizer that is not the one of the manifest, though its hash is right."""

import json

import pytest
import xxhash
from look import build
from manifests import rewrite

import tokenmill
from tokenmill.cli import main
from tokenmill.errors import TokenizerMismatchError
from tokenmill.tokens.bytes_and_chars import CharsTokenizer

TEXTS = build.encoded([b"A text.", b"Another text."])


def store(folder, state, entry):
    """Put another tokenizer there, with a manifest that vouches for its bytes and for `entry`."""
    data = json.dumps(state).encode()
    (folder / "tokenizer_state.json").write_bytes(data)
    stored = {"bytes": len(data), "xxh3_128": xxhash.xxh3_128_hexdigest(data)}

    def change(tree):
        tree["tokenizer"] |= entry
        tree["tokenizer"]["state"] |= stored

    rewrite(folder, change)


@pytest.fixture
def folder(tmp_path):
    return build.ours(tmp_path / "d", {"train": TEXTS})


@pytest.fixture
def few_ids():
    return CharsTokenizer("".join(map(chr, range(100, 457))))


OTHERS = {
    "fewer ids": lambda few_ids: (few_ids.state(), {"fingerprint": few_ids.fingerprint}),
    "another end-of-text id": lambda few_ids: ({}, {"end_of_text_id": 50255}),
    "another fingerprint": lambda few_ids: (few_ids.state(), {}),
    "its fingerprint is a lie": lambda few_ids: (few_ids.state() | {"fingerprint": "0" * 32}, {}),
}


@pytest.fixture(params=OTHERS)
def contradicting(request, folder, few_ids):
    state, entry = OTHERS[request.param](few_ids)
    store(folder, state or json.loads((folder / "tokenizer_state.json").read_bytes()), entry)
    return folder


def test_verify_finds_it(contradicting, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["verify", str(contradicting)])

    assert caught.value.code == 12
    assert capsys.readouterr().out.startswith("tokenizer_state.json: expected ")
    assert tokenmill.verify(contradicting, full=True).damaged[0].what == "tokenizer"


def test_it_is_never_used(contradicting, tmp_path):
    with pytest.raises(TokenizerMismatchError, match=r"tokenizer_state\.json|on this machine"):
        tokenmill.open(contradicting).decode([1, 2])
    with pytest.raises(TokenizerMismatchError):
        tokenmill.convert(contradicting, tmp_path / "copy", to="tokenmill")
    (tmp_path / "more.txt").write_text("More text.")
    with pytest.raises(TokenizerMismatchError):
        tokenmill.prepare(tmp_path / "more.txt", contradicting, append=True)


def test_the_two_numbers_are_named(folder, few_ids):
    store(folder, few_ids.state(), {"fingerprint": few_ids.fingerprint})

    (damage,) = tokenmill.verify(folder).damaged

    assert "number of ids 358 (manifest: 50257)" in damage.found
    assert "end-of-text id 357 (manifest: 50256)" in damage.found
    assert "fingerprint" not in damage.found


def test_its_ids_are_read_all_the_same(contradicting):
    """Batches need no tokenizer."""
    expected = build.joined(TEXTS).tolist()

    assert tokenmill.open(contradicting).tokens(0, len(expected)).tolist() == expected
