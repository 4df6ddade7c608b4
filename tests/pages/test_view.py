"""What the pages show is what is in the files."""

from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest
from look.build import ALL_FORMATS, EOT, documents, encoded, ours, raw
from pages.conftest import SCRIPT, serving
from pages.read import Read

import tokenmill
from tokenmill.batches import BatchForm
from tokenmill.pages.find_documents import LOOK, page_of
from tokenmill.tokens.load_tokenizer import load


def test_a_document_is_shown_token_by_token(client, texts):
    for number in (0, 3, 117):
        page = client.page(f"/document?n={number}")

        assert page.ids == [*encoded(texts)[number].tolist(), EOT]
    assert "document 117 of 118" in page.text
    assert "the same ids" in page.text


@pytest.mark.parametrize(("number", "around"), [(0, (None, 1)), (60, (59, 61)), (117, (116, None))])
def test_the_documents_before_and_after_are_linked(client, number, around):
    page = client.page(f"/document?n={number}")

    for rel, other in zip(("prev", "next"), around, strict=True):
        query = urlsplit(page.rel(rel) or "").query
        assert parse_qs(query).get("n") == (None if other is None else [str(other)])


def test_a_script_in_a_document_is_text(client):
    status, _, body = client.ask("/document?n=2")
    page = Read(body.decode())

    assert status == 200
    assert SCRIPT.decode().strip().replace(" ", "\u00b7") in page.text
    assert [script.get("src") for script in page.named("script")] == ["script.js"]
    assert not page.named("img")


def test_what_does_not_print_is_visible(client):
    page = client.page("/document?n=3")

    assert "tab\u2192\there,\u00b7euro\u00b7" in page.text
    assert "\\x07" in page.text
    assert "\u202e" not in page.text
    assert "\a" not in page.text
    assert any("3 bytes: e2 82 ac" in title or "bytes: " in title for title in page.titles)
    raw_tokens = [a for a in page.named("span") if "raw" in (a.get("class") or "")]
    assert raw_tokens


def test_hovering_shows_id_bytes_and_place(client, texts):
    page = client.page("/document?n=0")
    word = load("gpt2").decode(encoded(texts)[0][:1])

    shown = f"{len(word)} byte{'s' if len(word) > 1 else ''}: {word.hex(' ')}"
    assert page.titles[0] == f"id {page.ids[0]:,}\n{shown}\ntoken 0"
    assert "special" in page.titles[-1]


def test_special_tokens_and_edges_are_loud(client):
    page = client.page("/document?n=0")
    classes = [a.get("class") or "" for a in page.named("span")]

    assert classes.count("t special") == 1
    assert classes.count("edge") == 2


def test_pages_of_the_list_come_one_after_another(client):
    seen, address = [], "/documents"
    while address:
        page = client.page(address if address[0] == "/" else f"/{address}")
        seen += page.documents()
        address = page.rel("next")

    assert seen == list(range(118))
    assert client.page("/documents?n=100").rel("prev").endswith("n=50")


def test_documents_have_their_size_and_stretches_that_go_on_say_so(client, folder, tmp_path):
    assert "or more" not in client.page("/documents").text

    np.zeros(LOOK + 100, np.uint16).tofile(tmp_path / "a.bin")
    with serving(tmp_path / "a.bin", dtype="uint16", end_of_text=EOT) as other:
        assert f"{LOOK:,} or more" in other.page("/documents").text


def test_each_split_has_its_own_documents(client):
    page = client.page("/documents?split=val")

    assert page.documents() == list(range(12))
    assert all("split=val" in link for link in page.links if link.startswith("document?"))


def test_a_long_document_comes_in_parts(tmp_path):
    (long,) = encoded([b" ".join(b"word%d" % i for i in range(3000))])
    folder = ours(tmp_path / "long", {"train": [long]})

    with serving(folder) as client:
        ids, address = [], "/document?n=0"
        while address:
            page = client.page(f"/{address.lstrip('/')}")
            ids += page.ids
            address = next(
                (a for a in page.links if "from=" in a and int(a.split("=")[-1]) == len(ids)), None
            )

    assert ids == [*long.tolist(), EOT]


def test_longest_and_shortest_are_in_order(client, texts):
    lengths = np.array([len(ids) for ids in encoded(texts)])

    longest, shortest = client.page("/longest"), client.page("/shortest")

    assert longest.documents() == np.lexsort((np.arange(118), -lengths))[:50].tolist()
    assert shortest.documents() == np.lexsort((np.arange(118), lengths))[:50].tolist()


def test_random_leads_to_some_document(client):
    places = {client.ask("/random")[1]["Location"] for _ in range(12)}

    assert len(places) > 1
    for place in places:
        assert 0 <= int(place.removeprefix("document?n=")) < 118


@pytest.mark.parametrize(
    "asked",
    [
        {"step": 0},
        {"step": 1000, "batch_size": 4, "block_size": 64, "seed": 7},
        {"step": 3, "batch_size": 2, "block_size": 100, "rank": 1, "world_size": 3},
        {"step": 2, "batch_size": 3, "block_size": 128, "order": "sequential"},
        {"step": 2, "batch_size": 3, "block_size": 128, "order": "random"},
        {"step": 1, "batch_size": 2, "block_size": 99, "phase": 1},
    ],
)
def test_the_batch_of_a_step_is_the_loader_s(client, folder, stream, asked):
    data = tokenmill.open(folder)
    loader = tokenmill.BatchLoader(
        data, form=BatchForm(prefetch=0), **{k: v for k, v in asked.items() if k != "step"}
    )
    batch = loader.batch(asked["step"])
    query = "&".join(f"{name}={value}" for name, value in asked.items())

    page = client.page(f"/batch?{query}")

    assert len(page.articles) == loader.batch_size
    for row, ids in enumerate(page.articles):
        start = int(batch.starts[row])
        assert (
            ids
            == batch.tokens[row][: len(ids)].tolist()
            == stream[start : start + len(ids)].tolist()
        )
        assert len(ids) >= min(320, loader.block_size + 1)
        place = loader.locate(asked["step"], row)
        assert f"{place.file}token {place.offset:,}document {place.document:,}" in page.text
        assert f"document?at={start}" in page.links


@pytest.mark.parametrize("kind", ["packed", "documents"])
def test_rows_of_documents_are_shown_with_their_documents_and_without_padding(client, folder, kind):
    data = tokenmill.open(folder)
    loader = tokenmill.BatchLoader(
        data, form=BatchForm(prefetch=0), batch_size=2, block_size=300, rows=kind
    )
    batch = loader.batch(3)

    pages = [
        client.page(f"/batch?step=3&row={row}&batch_size=2&block_size=300&rows={kind}")
        for row in range(2)
    ]

    for row, page in enumerate(pages):
        assert page.articles == [batch.tokens[row][batch.segments[row] >= 0].tolist()]
        edges = [a["href"] for a in page.named("a") if a.get("class") == "edge"]
        pieces = batch.spans.between(row, row + 1)
        assert edges == [f"document?at={start}" for start in pieces.start.tolist()]
        assert ("of padding" in page.text) == bool((batch.segments[row] < 0).any())
    wrong = client.ask(f"/batch?rows={kind}&order=blocks")
    assert wrong[0] == 400


def test_a_row_is_shown_whole_when_asked_for(client, folder):
    loader = tokenmill.BatchLoader(tokenmill.open(folder), form=BatchForm(prefetch=0))

    page = client.page("/batch?step=5&row=2")

    assert page.articles == [loader.batch(5).tokens[2].tolist()]


@pytest.mark.parametrize(("row", "first"), [(0, 0), (15, 0), (16, 16), (21, 16), (39, 32)])
def test_a_row_links_to_the_rows_around_it(client, row, first):
    page = client.page(f"/batch?step=5&batch_size=40&row={row}")

    (back,) = [a["href"] for a in page.named("a") if "#row-" in (a.get("href") or "")]
    assert parse_qs(urlsplit(back).query)["first"] == [str(first)]
    assert urlsplit(back).fragment == f"row-{row}"


def test_a_row_says_where_its_documents_begin(client, folder):
    data = tokenmill.open(folder)
    loader = tokenmill.BatchLoader(data, form=BatchForm(prefetch=0), documents=True)
    batch = loader.batch(5)

    page = client.page("/batch?step=5&row=2")

    edges = [a for a in page.named("a") if a.get("class") == "edge"]
    assert len(edges) == int(batch.document_ids[2].max()) + 1
    positions = [t.split("position ")[1].split(" ")[0] for t in page.titles if "position" in t]
    assert [int(p.replace(",", "")) for p in positions] == batch.positions[2].tolist()
    masked = sum("begins another document" in title for title in page.titles)
    assert masked == int((~batch.loss_mask[2]).sum()) > 0


def test_a_document_says_when_it_is_trained_on(client, folder):
    data = tokenmill.open(folder)
    loader = tokenmill.BatchLoader(
        data, form=BatchForm(prefetch=0), batch_size=2, block_size=64, seed=3
    )
    visits = loader.when(40, epochs=[1])

    page = client.page("/document?n=40&batch_size=2&block_size=64&seed=3&epoch=1")

    steps = [link for link in page.links if link.startswith("batch?") and "#row-" in link]
    assert len(steps) == len(visits) > 0
    for link, visit in zip(steps, visits, strict=True):
        assert f"step={visit.step}#row-{visit.row}" in link
        # And the row that it leads to holds a part of the document.
        row = client.page(f"/{link.split('#')[0]}").articles[visit.row]
        start, stop = data.document_range(40)
        first = int(loader.batch(visit.step).starts[visit.row])
        assert first < stop
        assert first + len(row) > start


@pytest.mark.parametrize(
    "asked", ["mill", "a lost sack feeds no one", "<script>", "\u20ac", "zzzz", "Page 5.1"]
)
def test_search_finds_every_occurrence(client, stream, asked):
    text = load("gpt2").decode(stream)
    expected = text.count(asked.encode())

    found, address = 0, f"search?q={quote(asked)}"
    while address:
        page = client.page(f"/{address}")
        found += len(page.articles)
        address = page.rel("next")

    assert found == expected


def test_a_hit_leads_to_its_place_in_the_document(client):
    (hit,) = [link for link in client.page("/search?q=onerror").links if "hit=" in link]

    page = client.page(f"/{hit}")

    marked = [a for a in page.named("span") if "found" in (a.get("class") or "")]
    word = load("gpt2").decode(np.array([int(a["data-id"]) for a in marked]))
    assert b"onerror" in word
    assert len(word) < 20


def test_a_search_continues_where_it_stopped(tmp_path):
    texts = [b"A needle in hay number %d.\n" % i for i in range(70)]
    folder = ours(tmp_path / "hay", {"train": encoded(texts)})

    with serving(folder) as client:
        page = client.page("/search?q=needle")
        pages = [page]
        while (address := pages[-1].rel("next")) is not None:
            pages.append(client.page(f"/{address}"))

    assert [len(page.articles) for page in pages] == [20, 20, 20, 10]


@pytest.mark.parametrize("name", sorted(ALL_FORMATS))
def test_every_format_can_be_browsed(tmp_path, name):
    build, settings = ALL_FORMATS[name]
    texts = encoded(documents(30, seed=8))
    folder = build(tmp_path / "data", {"train": texts, "val": texts[:4]})
    data = tokenmill.open(folder, **settings, tokenizer="gpt2", end_of_text=EOT)
    middle = data.num_tokens // 2

    with serving(folder, **settings, tokenizer="gpt2", end_of_text=EOT) as client:
        for path in ("/", "/documents", "/batch?block_size=64", "/longest", "/search?q=wheel"):
            assert client.page(path).links
        page = client.page(f"/document?at={middle}")

    start, stop = data.document_range(data.document_at(middle))
    assert page.ids == data.tokens(start, stop).tolist()


def test_without_a_tokenizer_ids_are_shown(tmp_path):
    folder = raw(tmp_path / "raw", {"train": encoded(documents(20))})

    with serving(folder, dtype="uint16") as client:
        page = client.page("/document?at=0")
        again = client.page("/documents")
        assert client.page("/batch?block_size=64").ids
        assert "where documents end" in client.page("/longest").text
        assert "tokenizer" in client.page("/search?q=x", status=400).text

    assert page.ids == tokenmill.open(folder, dtype="uint16").tokens(0, 1024).tolist()
    assert f"<{page.ids[0]}>" in page.text
    assert "bytes" not in page.titles[0]
    assert "Windows" in again.text


def test_empty_documents_do_no_harm(tmp_path):
    folder = ours(
        tmp_path / "empty", {"train": [np.array([], int), np.array([5, 6]), np.array([], int)]}
    )

    with serving(folder) as client:
        assert client.page("/document?n=0").ids == [EOT]
        assert client.page("/shortest").documents() == [0, 2, 1]
        assert "no step" in client.page("/document?n=0&block_size=4").text


def test_ids_beyond_the_vocabulary_are_loud(tmp_path):
    docs = [np.array([1, 60_000, 2])] * 40
    folder = raw(tmp_path / "beyond", {"train": docs})

    with serving(folder, dtype="uint16", tokenizer="gpt2", end_of_text=EOT) as client:
        page = client.page("/document?at=0")
        assert client.page("/documents").links
        assert client.page("/batch?block_size=8").ids
        assert client.page("/").links

    assert page.ids == [1, 60_000, 2, EOT]
    assert "<60000>" in page.text
    classes = [a.get("class") for a in page.named("span") if "data-id" in a]
    assert [kind == "t special" for kind in classes] == [False, True, False, True]


def test_a_file_cut_short_while_it_is_browsed_is_an_error_on_the_page(tmp_path):
    folder = raw(tmp_path / "cut", {"train": encoded(documents(20))})

    with serving(folder, dtype="uint16", tokenizer="gpt2", end_of_text=EOT) as client:
        assert client.page("/document?at=0").ids
        (folder / "train.bin").write_bytes(b"")
        assert "train.bin" in client.page("/document?at=0", status=400).text


def test_a_single_shard_is_named_once(tmp_path):
    splits = {"train": encoded(documents(40, seed=1)), "val": encoded(documents(1, seed=2))}
    folder = ours(tmp_path / "d", splits, tokens_per_shard=1000)
    names = {name: sorted(p.name for p in (folder / name).glob("*.bin")) for name in splits}
    with serving(folder) as client:
        places = client.page("/").text.partition("First documents")[0]

    assert len(names["train"]) > 1 == len(names["val"])
    assert f"train/{names['train'][0]} ... train/{names['train'][-1]}" in places
    assert places.count(names["val"][0]) == 1


@pytest.mark.parametrize(("at", "earlier"), [(5, 0), (10, 0), (15, 5), (20, 10)])
def test_the_page_before_ends_where_this_one_begins(at, earlier):
    """Without an index: documents of five tokens, two on a page."""
    ids = np.tile(np.array([1, 2, 3, 4, EOT], np.uint16), 6)
    data = tokenmill.from_array(ids, end_of_text=EOT)

    documents, before, after = page_of(data, 2, at=at)

    assert [(one.start, one.stop) for one in documents] == [(at, at + 5), (at + 5, at + 10)]
    assert before == {"at": earlier}
    assert after == ({"at": at + 10} if at < 20 else None)
