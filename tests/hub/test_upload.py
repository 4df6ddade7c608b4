"""A dataset goes up whole, verified, in one commit, and comes down the same."""

import io
import json

import pyarrow.parquet as pq
import pytest
from hub.conftest import QUICK, TOKEN
from hub.test_download import get, visible
from look.build import documents, encoded, ours

import tokenmill
from tokenmill import verify
from tokenmill.cli import main
from tokenmill.errors import FormatError, NotADatasetError, UploadError
from tokenmill.hub import upload

REPO = "ann/corpus"


@pytest.fixture(autouse=True)
def variables_read_at_the_import(hub, monkeypatch):
    from huggingface_hub import constants

    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.endpoint + template)
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)


@pytest.fixture
def texts():
    held_out = {"val": documents(8, seed=2), "val_code": documents(8, seed=3)}
    return {"train": documents(150, seed=1), **held_out}


@pytest.fixture
def dataset(tmp_path, texts):
    docs = {name: encoded(t, "bytes") for name, t in texts.items()}
    folder = ours(tmp_path / "corpus", docs, tokens_per_shard=50_000, tokenizer="bytes")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Corpus\n\nPages of a mill.\n")
    (folder / "notes.txt").write_text("mine")
    (folder / ".env").write_text(f"HF_TOKEN={TOKEN}")
    return folder


def push(folder, **settings):
    return upload(folder, REPO, **{"retry": QUICK} | settings)


def test_what_goes_up_comes_down_the_same(hub, dataset, tmp_path):
    done = push(dataset)

    get(tmp_path / "back", REPO)
    sent = {
        k: v for k, v in visible(dataset).items() if k not in ("notes.txt", ".env", "README.md")
    }
    back = visible(tmp_path / "back")
    assert {name: back[name] for name in sent} == sent
    assert set(back) - set(sent) == {
        "README.md",
        *("sample/train.parquet", "sample/val.parquet", "sample/val_code.parquet"),
    }
    assert done.commit == hub.refs[REPO, "main"]


def test_a_compressed_dataset_goes_up_and_comes_down_the_same(hub, dataset, tmp_path):
    packed = tmp_path / "packed"
    tokenmill.convert(dataset, packed, compress="zstd:1")
    push(packed)

    get(tmp_path / "back", REPO)

    sent = {name: data for name, data in visible(packed).items() if name != "README.md"}
    back = visible(tmp_path / "back")
    assert {name: back[name] for name in sent} == sent
    assert verify(tmp_path / "back", full=True).damaged == []
    ours, theirs = (tokenmill.open(each, "all") for each in (dataset, tmp_path / "back"))
    assert theirs.fingerprint == ours.fingerprint


def test_only_files_of_the_dataset_go_up(hub, dataset):
    push(dataset)

    assert {"notes.txt", ".env"} & set(hub.repos[REPO]) == set()


def test_everything_is_one_commit(hub, dataset):
    push(dataset)

    commits = [r for r in hub.requests if r.method == "POST" and "/commit/" in r.path]
    assert len(commits) == 1


def test_the_sample_holds_the_first_documents_as_text(hub, dataset, texts):
    push(dataset)

    train = pq.read_table(io.BytesIO(hub.repos[REPO]["sample/train.parquet"])).to_pydict()
    assert train["text"] == [text.decode() for text in texts["train"][:100]]
    assert train["document"] == list(range(100))
    assert train["num_tokens"] == [len(text) + 1 for text in texts["train"][:100]]
    val = pq.read_table(io.BytesIO(hub.repos[REPO]["sample/val.parquet"])).to_pydict()
    assert val["tokens"][3] == [*texts["val"][3], 256]


def test_the_card_keeps_its_words_and_names_the_sample(hub, dataset):
    push(dataset)

    card = hub.repos[REPO]["README.md"].decode()
    assert "license: mit" in card
    assert card.endswith("# Corpus\n\nPages of a mill.\n")
    assert "path: sample/train.parquet" in card
    assert (dataset / "README.md").read_text().count("sample") == 0


def test_a_dataset_without_a_card_gets_one(hub, dataset):
    (dataset / "README.md").unlink()

    push(dataset, sample=False)

    assert "| train |" in hub.repos[REPO]["README.md"].decode()


def test_a_damaged_dataset_does_not_leave_the_house(hub, dataset):
    path = dataset / "train" / "shard_00001.bin"
    data = bytearray(path.read_bytes())
    data[77] ^= 1
    path.write_bytes(data)

    with pytest.raises(FormatError, match=r"shard_00001\.bin"):
        push(dataset)

    assert hub.requests == []


def test_a_folder_without_a_manifest_is_refused(hub, tmp_path):
    with pytest.raises(NotADatasetError):
        push(tmp_path)


@pytest.mark.parametrize("compress", [None, "zstd:1"])
def test_a_smaller_dataset_removes_the_shards_it_no_longer_has(
    hub, dataset, tmp_path, texts, compress
):
    if compress is not None:
        tokenmill.convert(dataset, tmp_path / "packed", compress=compress)
    push(dataset if compress is None else tmp_path / "packed")
    before = set(hub.repos[REPO])
    small = ours(
        tmp_path / "small", {"train": encoded(texts["train"][:3], "bytes")}, tokenizer="bytes"
    )

    done = push(small)

    assert set(hub.repos[REPO]) == {
        "README.md",
        "dataset_metadata.json",
        "sample/train.parquet",
        "tokenizer_state.json",
        "train/shard_00000.bin",
        "train/shard_00000.ends",
    }
    assert set(done.removed) == before - set(hub.repos[REPO])


def test_a_branch_is_made_and_main_is_left_alone(hub, dataset):
    push(dataset, revision="v2")

    assert hub.trees[REPO, hub.refs[REPO, "main"]] == {}
    assert "dataset_metadata.json" in hub.trees[REPO, hub.refs[REPO, "v2"]]


def test_a_busy_hub_is_tried_again(hub, dataset):
    hub.fault("api:commit", "status", status=503)

    push(dataset)

    assert "dataset_metadata.json" in hub.repos[REPO]


def test_without_a_token_the_error_says_how_to_log_in(hub, dataset, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")

    with pytest.raises(UploadError) as caught:
        push(dataset, token=False)

    assert "hf auth login" in str(caught.value)


def test_the_command_prints_where_it_went(hub, dataset, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["upload", str(dataset), REPO, "--private", "--json", "-q"])

    assert stop.value.code in (0, None)
    result = json.loads(capsys.readouterr().out)
    assert result["url"] == f"{hub.endpoint}/datasets/{REPO}"
    assert "dataset_metadata.json" in result["files"]
