"""Documents are overwritten, everything else is as it was, and both can be proved."""

import json
import os
import shutil
import signal
import subprocess
import sys

import column_data
import numpy as np
import pytest
from forgetting.conftest import (
    END,
    SECRETS,
    arrays,
    batches,
    forgotten_by_hand,
    is_secret,
    prepare,
    write_texts,
)
from small_corpus import files_of
from system_faults import injecting, needs_strace

import tokenmill
from tokenmill import BatchLoader
from tokenmill.cli import main
from tokenmill.errors import CorruptShardError, FormatError, NotADatasetError
from tokenmill.forgetting import forget
from tokenmill.preparation import Chat
from tokenmill.reading.frames import open_frames
from tokenmill.shards.manifest import Manifest

ROOT = os.path.dirname(os.path.dirname(tokenmill.__path__[0]))
SECRET = b"SECRET"


def contents(folder):
    """Every file below a folder, those of frames unpacked as well, and texts of facts."""
    packed = {}
    for path in folder.rglob("dataset_metadata.json"):
        for shard in Manifest.load(path.parent).shards:
            for entry in shard.contents:
                if entry.packed is not None:
                    packed[path.parent / entry.packed.file] = entry
    for path in filter(os.path.isfile, folder.rglob("*")):
        yield path, path.read_bytes()
        if entry := packed.get(path):
            yield path, b"".join(open_frames(path, entry.num_bytes, entry.packed.num_bytes))


def runs_of(text):
    """The ids of a text as they are in a shard, and as they are in a cache."""
    return np.frombuffer(text, "u1").astype("<u2").tobytes()


def assert_gone(folder):
    for path, data in contents(folder):
        if path.suffix != ".jsonl":
            assert SECRET not in data, path
            assert runs_of(SECRET) not in data, path


def test_only_what_was_meant_is_gone(dataset):
    expected = forgotten_by_hand(arrays(dataset), is_secret)

    forget(dataset, where=SECRETS)

    found = arrays(dataset)
    for split in ("train", "val"):
        assert np.array_equal(found[split]["ids"], expected[split]["ids"])
        assert found[split]["ranges"] == expected[split]["ranges"]
        assert found[split]["facts"] == expected[split]["facts"]
        assert found[split]["columns"].keys() == {"loss"}
        loss = found[split]["columns"]["loss"]
        assert np.array_equal(loss, expected[split]["columns"]["loss"])
    assert tokenmill.verify(dataset, full=True).ok
    assert sorted(path.name for path in dataset.parent.iterdir()) == ["data", "texts.jsonl"]


def test_no_run_of_ids_is_left_in_the_folder_or_in_caches(dataset, tmp_path):
    cache = tmp_path / "cache"
    for order in ("shuffle", "random"):  # through the cache, where shards are compressed
        batches(tokenmill.open(dataset), 40, order=order)
    is_packed = Manifest.load(dataset).is_packed
    cached = [path for path in cache.rglob("*.block") if runs_of(SECRET) in path.read_bytes()]
    assert bool(cached) == is_packed
    assert any(runs_of(SECRET) in data for _, data in contents(dataset))

    forget(dataset, where=SECRETS)

    assert_gone(tmp_path)


@pytest.mark.parametrize("rows", ["windows", "packed", "documents"])
def test_states_resume_and_all_other_tokens_keep_their_place(dataset, rows):
    data = tokenmill.open(dataset)
    fingerprint = data.fingerprint
    options = {"batch_size": 8, "block_size": 48, "rows": rows, "documents": True}
    loader = BatchLoader(data, **options)
    for _ in range(2):
        next(loader)
    state = loader.state_dict()
    before = [next(loader) for _ in range(60)]
    loader.close()

    forget(dataset, where=SECRETS)

    data = tokenmill.open(dataset)
    assert data.fingerprint == fingerprint
    resumed = BatchLoader(data, **options)
    resumed.load_state_dict(state)
    changed = 0
    for then in before:
        now = next(resumed)
        differs = then.tokens != now.tokens
        assert (now.tokens[differs] == END).all()
        assert (now.labels[differs[:, 1:]] == -100).all()
        assert ((now.labels == then.labels) | (now.labels == -100)).all()
        assert np.array_equal(now.document_ids, then.document_ids)  # by the index, not by ids
        assert np.array_equal(now.positions, then.positions)
        changed += int(differs.sum())
    assert changed
    resumed.close()


def test_forgetting_again_and_forgetting_more(dataset):
    done = forget(dataset, where="k = 100")
    entries = [entry for found in done["documents"].values() for entry in found]
    files = files_of(dataset)

    again = forget(dataset, ids=[entry["id"].upper() for entry in entries])
    assert again["documents"] == {}
    assert files_of(dataset) == files

    forget(dataset, where=SECRETS)
    assert_gone(dataset)
    assert tokenmill.verify(dataset, full=True).ok
    assert len(json.loads((dataset / "forgotten.json").read_text())["forgotten"]) == 2


def test_columns_are_emptied_and_a_loss_that_is_there_is_used(tmp_path):
    documents = column_data.make_documents()
    data = column_data.write(tmp_path / "data", documents)
    expected = column_data.axis_of(documents)
    fingerprint = data.fingerprint
    weighed = tokenmill.open(tmp_path / "data", columns=["weights"]).fingerprint
    start, stop = data.document_range(7)
    ids = np.asarray(documents[7]["ids"])
    key = __import__("xxhash").xxh3_128_hexdigest(ids.astype("<u4").tobytes())

    forget(tmp_path / "data", ids=[key])  # without facts: by its content

    data = tokenmill.open(tmp_path / "data")
    assert data.fingerprint == fingerprint
    assert tokenmill.open(tmp_path / "data", columns=["weights"]).fingerprint == weighed
    expected["ids"][start:stop] = END
    assert np.array_equal(data[:], expected["ids"])
    for name in data.columns:
        expected[name][start:stop] = 0
        assert np.array_equal(data.column(name, 0, len(data)), expected[name]), name
    assert tokenmill.verify(tmp_path / "data", full=True).damaged == []
    assert forget(tmp_path / "data", ids=[key])["documents"] == {}


def test_a_begin_token_stays(tmp_path):
    write_texts(tmp_path)
    folder = prepare(tmp_path, tokenizer="gpt2", begin_token="0")
    data = tokenmill.open(folder)
    starts = [data.document_range(i)[0] for i in range(data.num_documents)]

    forget(folder, where="k < 50")

    data = tokenmill.open(folder)
    assert (data[:][starts] == 0).all()
    assert tokenmill.verify(folder, full=True).ok


def test_verify_sees_another_change_under_right_hashes(dataset):
    """Somebody changed a shard elsewhere and wrote a manifest that fits: the certificate tells."""
    forget(dataset, where=SECRETS)
    certificate = json.loads((dataset / "forgotten.json").read_text())
    (_, rest), *_ = certificate["rest"].items()
    assert tokenmill.verify(dataset, full=True).ok

    rest["ids"] = "0" * 32
    rewrite_certificate(dataset, certificate)
    check = tokenmill.verify(dataset, full=True)
    assert [finding.what for finding in check.damaged] == ["forgotten"]

    certificate = json.loads((dataset / "forgotten.json").read_text())
    entry = next(iter(certificate["forgotten"][0]["documents"].values()))[0]
    entry["document"] += 1  # another document than the one that was overwritten
    rewrite_certificate(dataset, certificate)
    assert not tokenmill.verify(dataset, full=True).ok


def rewrite_certificate(dataset, certificate):
    from dataclasses import replace

    import xxhash

    data = json.dumps(certificate).encode()
    (dataset / "forgotten.json").write_bytes(data)
    manifest = Manifest.load(dataset)
    entry = replace(
        manifest.forgotten, num_bytes=len(data), xxh3_128=xxhash.xxh3_128_hexdigest(data)
    )
    replace(manifest, forgotten=entry).write(dataset)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"ids": ["0" * 32]}, "1 of 1 ids, such as"),
        ({"ids": ["ab", "12"]}, "id 1 is 'ab'; an id has 32 hex digits"),
        ({"where": "k = 9999"}, "no document of .* is chosen by 'k = 9999'"),
        ({"where": "nothing = 1"}, "nothing"),
        ({}, "either by ids or by where"),
        ({"where": "k = 1", "ids": []}, "either by ids or by where"),
    ],
)
def test_what_cannot_be_forgotten_is_refused_and_nothing_changes(dataset, asked, words):
    files = files_of(dataset)

    with pytest.raises((FormatError, ValueError), match=words):
        forget(dataset, **asked)

    assert files_of(dataset) == files


def test_datasets_that_cannot_be_changed_are_refused(dataset, tmp_path):
    with pytest.raises(ValueError, match="is in a store"):
        forget("s3://bucket/data", where="k = 1")
    with pytest.raises(NotADatasetError, match="does not exist"):
        forget(tmp_path / "none" / "data", where="k = 1")
    assert not (tmp_path / "none").exists()
    with pytest.raises(NotADatasetError, match="does not exist"):
        forget(tmp_path / "nothing", where="k = 1")
    (dataset / ".preparation").mkdir()
    with pytest.raises(FormatError, match="being prepared"):
        forget(dataset, where="k = 1")
    (dataset / ".preparation").rmdir()
    shard = next(dataset.glob("train/shard_00000.bin*"))
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match="is a link out of"):
        forget(dataset, where="k < 100")


def test_a_damaged_shard_is_not_made_sound(dataset):
    shard = next(dataset.glob("train/shard_00000.bin*"))
    data = bytearray(shard.read_bytes())
    data[40] ^= 1
    shard.write_bytes(data)

    with pytest.raises(CorruptShardError):
        forget(dataset, where="k < 100")


def test_files_of_others_and_a_link_to_the_folder_stay(dataset, tmp_path):
    (dataset / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to("data")

    forget(tmp_path / "link", where=SECRETS)

    assert (tmp_path / "link").is_symlink()
    assert (dataset / "notes.txt").read_text() == "mine"
    assert_gone(tmp_path)


def test_conversions_keep_the_certificate_or_leave_the_documents_out(dataset, tmp_path):
    fingerprint = tokenmill.open(dataset).fingerprint
    forget(dataset, where=SECRETS)
    is_packed = Manifest.load(dataset).is_packed
    how = {"decompress": True} if is_packed else {"compress": "zstd"}

    tokenmill.convert(dataset, tmp_path / "packed", **how)
    assert tokenmill.verify(tmp_path / "packed", full=True).ok
    assert tokenmill.open(tmp_path / "packed").fingerprint == fingerprint

    with pytest.raises(FormatError, match="was forgotten"):
        tokenmill.convert(dataset, tmp_path / "other", to="tokenmill")
    tokenmill.convert(
        dataset, tmp_path / "rest", to="tokenmill", where="source IS NOT NULL", columns=[]
    )
    assert tokenmill.verify(tmp_path / "rest", full=True).ok


def test_chats_are_added_to_what_was_forgotten(tmp_path):
    """An addition keeps the certificate, and the fingerprint of what was there."""
    chat = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "no"}]}
    rows = [json.dumps({**chat, "k": n}) for n in range(40)]
    template = (
        "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }}|{% endgeneration %}{% else %}{{ m.content }}|{% endif %}{% endfor %}"
    )
    (tmp_path / "t.jinja").write_text(template)
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    (tmp_path / "b.jsonl").write_text("\n".join(row.replace("hi", "ho") for row in rows))
    chats = Chat(chat_template=str(tmp_path / "t.jinja"))
    how = {"tokenizer": "bytes", "chat": chats, "keep": "k"}
    tokenmill.prepare(tmp_path / "a.jsonl", tmp_path / "d", **how)
    before = tokenmill.open(tmp_path / "d", "train")
    size, fingerprint = len(before), before.fingerprint

    forget(tmp_path / "d", where="k = 3")
    tokenmill.prepare(tmp_path / "b.jsonl", tmp_path / "d", append=True)

    assert tokenmill.verify(tmp_path / "d", full=True).damaged == []
    assert Manifest.load(tmp_path / "d").forgotten is not None
    assert tokenmill.open(tmp_path / "d", "train").part(0, size).fingerprint == fingerprint


def test_the_command(dataset, capsys):
    key = tokenmill.open(dataset, "train").facts(["id"]).to_pylist()[4]["id"].hex()
    (dataset.parent / "ids.txt").write_text(f"{key}\n\n")

    with pytest.raises(SystemExit) as end:
        main(["forget", str(dataset), "--ids", str(dataset.parent / "ids.txt"), "--json"])

    assert end.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said["documents"]["train"] == [{"document": 4, "id": key}]


KILLED = "import sys; from tokenmill.cli import main; main(sys.argv[1:])"


@needs_strace
@pytest.mark.parametrize("call", ["rename", "link", "fsync"])
@pytest.mark.parametrize("dataset", ["compressed"], indirect=True)
def test_killed_anywhere_the_same_command_does_the_rest(dataset, tmp_path, call):
    """`python -m faults --only kills --operations forget` kills at every kind of call."""
    data = tokenmill.open(dataset, "all")
    keys = [row["id"].hex() for row in data.facts(["id"], where=SECRETS).to_pylist()]
    (tmp_path / "ids").write_text("\n".join(keys))
    batches(tokenmill.open(dataset), 60)  # fills the cache
    for name in ("data", "cache"):
        shutil.copytree(tmp_path / name, tmp_path / f"{name}-before")
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}/src", "PYTHONDONTWRITEBYTECODE": "1"}
    words = ["forget", str(dataset), "--ids", str(tmp_path / "ids")]
    command = [sys.executable, "-P", "-c", KILLED, *words]
    forget(dataset, ids=keys)
    after = files_of(dataset)
    kills = 0
    for number in (1, 5):
        for name in ("data", "cache"):
            shutil.rmtree(tmp_path / name)
            shutil.copytree(tmp_path / f"{name}-before", tmp_path / name)
        calls = call if call == "fsync" else f"{call},{call}at"
        killing = injecting(f"signal=SIGKILL:when={number}", calls)
        code = subprocess.run([*killing, *command], env=environ, capture_output=True).returncode
        kills += code == -signal.SIGKILL

        subprocess.run(command, env=environ, check=True, capture_output=True)

        assert files_of(dataset) == after
        assert_gone(dataset)
        assert_gone(tmp_path / "cache")
        assert not list(tmp_path.glob(".*"))
    assert kills == 2
