"""What every kind of tokenizer promises, asked of each kind, and of real files of the packages."""

import json
import pickle
import unicodedata

import numpy as np
import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from special_tokens import byte_letters
from tokenizers import normalizers, pre_tokenizers

from tokenmill.errors import BadInputError, FormatError
from tokenmill.tokens.bytes_and_chars import CharsTokenizer, chars_of
from tokenmill.tokens.cuts import AT_SPACES_AND_COMMAS
from tokenmill.tokens.load_tokenizer import from_state, load
from tokenmill.tokens.tokenizer_json import spellings_of

TEXT = (
    "The miller's wheel turns; we'll grind 1234 sacks a day.\n\n"
    "def turn(wheel):\n\treturn wheel + 1  # once\n"
    "na\u00efve \u00df \u6c34\u8eca\uff0c\u6c34\u8eca \U0001f33e </s> <|endoftext|>\n"
)
DOCUMENTS = [TEXT.encode(), b"", b"a", TEXT[::-1].encode()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, train_bpe, rank_file):
    """A folder with one tokenizer of each kind of file."""
    folder = tmp_path_factory.mktemp("tokenizers")
    train_bpe(TEXT * 3).save(str(folder / "fast.json"))
    steps = [normalizers.NFD(), normalizers.NFC()]  # gigatoken has not the first
    train_bpe(TEXT * 3, normalizer=normalizers.Sequence(steps)).save(str(folder / "slow.json"))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((TEXT * 20).splitlines()),
        model_prefix=str(folder / "pieces"),
        vocab_size=330,
        hard_vocab_limit=False,
        byte_fallback=True,
        minloglevel=2,
    )
    (folder / "mine.tiktoken").write_bytes(rank_file)
    return folder


KINDS = ["gpt2", "bytes", "chars", "fast.json", "slow.json", "pieces.model", "mine"]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request, folder):
    match request.param:
        case "gpt2" | "bytes":
            return load(request.param)
        case "chars":
            return CharsTokenizer.learn(DOCUMENTS)
        case "mine":
            return load(str(folder / "mine.tiktoken"), pattern="o200k", end_of_text=50256)
        case name:
            return load(str(folder / name))


class TestEveryKind:
    """The protocol."""

    def test_ids_are_flat_and_every_text_has_its_end(self, tokenizer):
        ids, ends = tokenizer.encode_batch(DOCUMENTS)

        assert (ids.dtype, ids.ndim, ends.dtype) == (np.uint32, 1, np.int64)
        assert len(ends) == len(DOCUMENTS)
        for text, part in zip(DOCUMENTS, np.split(ids, ends[:-1]), strict=True):
            assert part.tolist() == tokenizer.encode_batch([text])[0].tolist()

    def test_no_texts_give_empty_arrays(self, tokenizer):
        ids, ends = tokenizer.encode_batch([])

        assert (len(ids), len(ends), ids.dtype, ends.dtype) == (0, 0, np.uint32, np.int64)

    def test_no_text_is_mistaken_for_the_end_of_a_text(self, tokenizer):
        ids, _ = tokenizer.encode_batch(DOCUMENTS)

        assert tokenizer.end_of_text_id not in ids
        assert tokenizer.end_of_text_id < tokenizer.vocab_size
        assert ids.max() < tokenizer.vocab_size

    def test_decoding_gives_the_text_back(self, tokenizer):
        ids, _ = tokenizer.encode_batch([TEXT.encode()])

        found = tokenizer.decode(ids.astype(np.uint16)).decode()

        if tokenizer.name == "pieces.model":  # SentencePiece keeps words, and those as NFKC
            assert found.split() == unicodedata.normalize("NFKC", TEXT).split()
        else:
            assert found == TEXT

    def test_one_text_is_encoded_like_a_batch_of_one(self, tokenizer):
        expected = tokenizer.encode_batch([TEXT.encode()])[0].tolist()

        assert tokenizer.encode(TEXT).tolist() == tokenizer.encode(TEXT.encode()).tolist()
        assert tokenizer.encode(TEXT).tolist() == expected

    def test_bytes_of_ids_add_up_to_the_text(self, tokenizer):
        ids, by_id = tokenizer.encode(TEXT).tolist(), tokenizer.bytes_of_ids()

        assert len(by_id) == tokenizer.vocab_size
        assert not by_id[tokenizer.end_of_text_id]
        found = b"".join(by_id[i] for i in ids).decode()
        if tokenizer.name == "pieces.model":
            assert found.split() == unicodedata.normalize("NFKC", TEXT).split()
        else:
            assert found == TEXT

    def test_bytes_that_are_no_text_are_refused_by_all_but_bytes(self, tokenizer):
        if tokenizer.name == "bytes":
            assert tokenizer.encode(b"\xff").tolist() == [255]
        else:
            with pytest.raises(BadInputError, match="not UTF-8"):
                tokenizer.encode(b"\xff")

    def test_the_end_of_text_can_be_decoded(self, tokenizer):
        assert tokenizer.decode(np.array([tokenizer.end_of_text_id])).decode() in (
            "",
            tokenizer.end_of_text,
        )

    def test_ids_out_of_range_are_refused(self, tokenizer):
        with pytest.raises(ValueError, match=r"not in the vocabulary"):
            tokenizer.decode(np.array([tokenizer.vocab_size]))

    def test_its_state_is_json_that_brings_it_back(self, tokenizer):
        state = json.loads(json.dumps(tokenizer.state()))
        again = from_state(state)

        assert (again.name, again.vocab_size) == (tokenizer.name, tokenizer.vocab_size)
        assert again.end_of_text_id == tokenizer.end_of_text_id
        assert again.fingerprint == tokenizer.fingerprint == state["fingerprint"]
        assert again.state() == tokenizer.state()
        for found, expected in zip(
            again.encode_batch(DOCUMENTS), tokenizer.encode_batch(DOCUMENTS), strict=True
        ):
            assert found.tolist() == expected.tolist()

    def test_it_pickles_after_use(self, tokenizer):
        expected = tokenizer.encode_batch(DOCUMENTS)[0].tolist()
        tokenizer.decode(np.array([0]))

        again = pickle.loads(pickle.dumps(tokenizer))

        assert again.encode_batch(DOCUMENTS)[0].tolist() == expected

    def test_cutting_where_it_allows_changes_nothing(self, tokenizer):
        whole = tokenizer.encode_batch([TEXT.encode()])[0].tolist()

        for match in tokenizer.cuts.finditer(TEXT.encode()) if tokenizer.cuts else []:
            parts = [TEXT.encode()[: match.end()], TEXT.encode()[match.end() :]]
            assert tokenizer.encode_batch(parts)[0].tolist() == whole


def test_every_kind_has_its_own_fingerprint(folder):
    kinds = [
        load("gpt2"),
        load("bytes"),
        CharsTokenizer.learn(DOCUMENTS),
        CharsTokenizer.learn([b"other"]),
        load(str(folder / "fast.json")),
        load(str(folder / "pieces.model")),
        load(str(folder / "mine.tiktoken"), pattern="o200k", end_of_text=50256),
    ]

    assert len({kind.fingerprint for kind in kinds}) == len(kinds)


def test_fingerprints_of_bytes_and_chars_are_frozen():
    """Other values would make datasets on disk look like those of another tokenizer."""
    assert load("bytes").fingerprint == "c2fddb1f567e7bf0f78e5bfcb951f961"
    assert CharsTokenizer.learn([b"abc \n"]).fingerprint == "d051e407bd894a4ac296ae3a34921ada"


class TestChars:
    """One id a character."""

    @given(texts=st.lists(st.text(), min_size=1))
    @settings(max_examples=100, deadline=None)
    def test_ids_are_places_in_the_sorted_alphabet(self, texts):
        alphabet = sorted(set("".join(texts)))

        ids, ends = CharsTokenizer.learn([t.encode() for t in texts]).encode_batch(
            [t.encode() for t in texts]
        )

        assert ids.tolist() == [alphabet.index(c) for c in "".join(texts)]
        assert ends.tolist() == np.cumsum([len(t) for t in texts]).tolist()

    def test_sets_of_parts_join_to_the_set_of_the_whole(self):
        apart = chars_of([b"ab"]) | chars_of(["\u00e9".encode(), b"a"])

        assert CharsTokenizer.build(apart) == CharsTokenizer.learn([b"ab", "\u00e9a".encode()])

    def test_a_character_that_was_not_learned_is_named(self):
        with pytest.raises(BadInputError, match=r"'\u00e9' \(U\+00E9, character 2 of text 1\)"):
            CharsTokenizer.learn([b"abc"]).encode_batch([b"abc", "ab\u00e9".encode()])

    def test_bytes_that_are_no_text_are_refused(self):
        with pytest.raises(BadInputError, match="text 1 is not UTF-8 at byte 2"):
            CharsTokenizer.learn([b"abc"]).encode_batch([b"a", b"ab\xff"])


class TestTokenizerJson:
    """Files of the tokenizers package."""

    def test_byte_level_bpe_runs_on_gigatoken_and_gives_the_same_ids(self, folder):
        path = folder / "fast.json"
        reference = tokenizers.Tokenizer.from_file(str(path))
        reference.encode_special_tokens = True

        tokenizer = load(str(path))

        assert tokenizer.backend == "gigatoken"
        assert tokenizer.cuts is AT_SPACES_AND_COMMAS
        assert tokenizer.encode_batch([TEXT.encode()])[0].tolist() == reference.encode(TEXT).ids

    def test_a_normalizer_that_gigatoken_does_not_have_is_left_to_the_tokenizers_package(
        self, folder
    ):
        path = folder / "slow.json"
        text = "e\u0301 " + TEXT
        reference = tokenizers.Tokenizer.from_file(str(path))
        reference.encode_special_tokens = True

        tokenizer = load(str(path))

        assert tokenizer.backend == "tokenizers"
        assert tokenizer.encode_batch([text.encode()])[0].tolist() == reference.encode(text).ids

    @pytest.mark.parametrize(
        ("normalizer", "cuttable"),
        [
            (normalizers.Lowercase(), True),
            (normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()]), True),
            (normalizers.NFC(), True),
            (normalizers.NFKC(), False),
            (normalizers.Strip(), False),
        ],
    )
    def test_a_long_text_after_a_normalizer_is_encoded_in_pieces_where_that_is_safe(
        self, tmp_path, train_bpe, normalizer, cuttable
    ):
        path = tmp_path / "tokenizer.json"
        train_bpe(TEXT * 3, normalizer=normalizer).save(str(path))
        reference = tokenizers.Tokenizer.from_file(str(path))
        reference.encode_special_tokens = True
        sign = "\ufc5e \u0130 \u03a3 e\u0301 "  # lower case and NFKC change their number
        long = "".join(f"{n}{sign}{TEXT}" for n in range(3000))
        texts = ["a b", long, "", long[::-1]]

        tokenizer = load(str(path))
        ids, ends = tokenizer.encode_batch([text.encode() for text in texts])

        assert (tokenizer.cuts is not None) == cuttable
        parts = np.split(ids, ends[:-1])
        assert [part.tolist() for part in parts] == [reference.encode(text).ids for text in texts]

    @pytest.mark.parametrize(
        ("pre_tokenizer", "backend", "cuttable"),
        [
            (pre_tokenizers.ByteLevel(add_prefix_space=False), "gigatoken", True),
            (pre_tokenizers.ByteLevel(add_prefix_space=True), "gigatoken", False),
            (
                pre_tokenizers.Sequence(
                    [
                        pre_tokenizers.Split(tokenizers.Regex(r"\d|[^\d]+"), "isolated"),
                        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                    ]
                ),
                "tokenizers",
                False,
            ),
        ],
    )
    def test_only_forms_that_are_the_same_in_both_run_on_gigatoken(
        self, tmp_path, train_bpe, pre_tokenizer, backend, cuttable
    ):
        reference = train_bpe(TEXT * 3, pre_tokenizer=pre_tokenizer)
        reference.save(str(tmp_path / "tokenizer.json"))
        reference.encode_special_tokens = True

        tokenizer = load(str(tmp_path))

        assert (tokenizer.backend, tokenizer.cuts is not None) == (backend, cuttable)
        assert tokenizer.encode_batch([TEXT.encode()])[0].tolist() == reference.encode(TEXT).ids

    @pytest.mark.parametrize("name", ["llama3", "qwen2", "o200k"])
    def test_published_split_patterns_run_on_gigatoken(self, tmp_path, train_bpe, name):
        from tokens.patterns import PATTERNS

        split = pre_tokenizers.Split(tokenizers.Regex(PATTERNS[name]), "isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        steps = pre_tokenizers.Sequence([split, byte_level])
        reference = train_bpe(TEXT * 3, 450, pre_tokenizer=steps)
        reference.save(str(tmp_path / "tokenizer.json"))
        reference.encode_special_tokens = True

        tokenizer = load(str(tmp_path / "tokenizer.json"))

        assert (tokenizer.backend, tokenizer.cuts) == ("gigatoken", AT_SPACES_AND_COMMAS)
        assert tokenizer.encode_batch([TEXT.encode()])[0].tolist() == reference.encode(TEXT).ids

    def test_special_tokens_in_a_text_stay_text_and_others_are_vocabulary(
        self, tmp_path, train_bpe
    ):
        reference = train_bpe(TEXT, added=["<|endoftext|>", "[PAD]"])
        reference.add_tokens(["<mill>"])
        reference.save(str(tmp_path / "tokenizer.json"))

        tokenizer = load(str(tmp_path / "tokenizer.json"))
        ids, _ = tokenizer.encode_batch([b"x<|endoftext|>[PAD]<mill>y"])

        assert tokenizer.decode(ids) == b"x<|endoftext|>[PAD]<mill>y"
        assert not {reference.token_to_id(t) for t in ("<|endoftext|>", "[PAD]")} & set(
            ids.tolist()
        )
        assert reference.token_to_id("<mill>") in ids
        assert tokenizer.cuts is None

    @pytest.mark.parametrize("normalizer", [None, normalizers.NFC()])
    def test_an_end_of_text_not_marked_special_stays_text_as_well(
        self, tmp_path, train_bpe, normalizer
    ):
        reference = train_bpe(TEXT, added=[], normalizer=normalizer)
        reference.add_tokens(["</s>"])
        reference.save(str(tmp_path / "tokenizer.json"))

        tokenizer = load(str(tmp_path / "tokenizer.json"))
        ids, _ = tokenizer.encode_batch([b"x</s>y"])

        assert tokenizer.end_of_text_id == reference.token_to_id("</s>")
        assert tokenizer.end_of_text_id not in ids
        assert tokenizer.decode(ids) == b"x</s>y"

    def test_templates_truncation_and_padding_are_not_applied(self, tmp_path, train_bpe):
        reference = train_bpe(TEXT * 3, added=["</s>", "<s>"])
        plain = reference.encode(TEXT.replace("</s>", "")).ids
        reference.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 0)]
        )
        reference.enable_truncation(4)
        reference.enable_padding(length=9)
        reference.save(str(tmp_path / "tokenizer.json"))

        tokenizer = load(str(tmp_path / "tokenizer.json"))

        found = tokenizer.encode_batch([TEXT.replace("</s>", "").encode()])[0].tolist()
        assert found == plain
        assert tokenizer.end_of_text == "</s>"

    def test_the_same_vocabulary_from_two_kinds_of_file_has_one_fingerprint(
        self, tmp_path, oracle, rank_file
    ):
        """GPT-2 as a tokenizer.json, with merges worked out from the ranks."""
        reference = gpt2_as_json(oracle("gpt2"))
        reference.save(str(tmp_path / "tokenizer.json"))

        tokenizer = load(str(tmp_path / "tokenizer.json"))

        assert tokenizer.backend == "gigatoken"
        assert tokenizer.fingerprint == load("gpt2").fingerprint

    @pytest.mark.parametrize("added", [[], ["[PAD]"], ["</s>", "<|endoftext|>"]])
    def test_an_unclear_end_of_text_is_asked_for(self, tmp_path, train_bpe, added):
        train_bpe(TEXT, added=added).save(str(tmp_path / "tokenizer.json"))

        with pytest.raises(FormatError, match="it is not clear which token ends a text") as caught:
            load(str(tmp_path / "tokenizer.json"))

        assert "end_of_text=" in caught.value.hint

    def test_the_end_of_text_may_be_named_or_numbered(self, tmp_path, train_bpe):
        reference = train_bpe(TEXT, added=["</s>", "<|endoftext|>"])
        reference.save(str(tmp_path / "tokenizer.json"))

        named = load(str(tmp_path / "tokenizer.json"), end_of_text="</s>")
        numbered = load(str(tmp_path / "tokenizer.json"), end_of_text=1)

        assert (named.end_of_text_id, numbered.end_of_text) == (0, "<|endoftext|>")
        with pytest.raises(ValueError, match="'<end>' is not one of the added tokens"):
            load(str(tmp_path / "tokenizer.json"), end_of_text="<end>")

    @pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"model": {"vocab": 3}}', "\ufeff"])
    def test_files_that_are_something_else_are_refused(self, tmp_path, content):
        (tmp_path / "tokenizer.json").write_text(content)

        with pytest.raises(FormatError, match=r"tokenizer\.json"):
            load(str(tmp_path / "tokenizer.json"))


class TestSentencePiece:
    """Files of the sentencepiece package."""

    def test_ids_are_those_of_the_package(self, folder):
        reference = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))

        tokenizer = load(str(folder / "pieces.model"))

        assert tokenizer.encode_batch([TEXT.encode()])[0].tolist() == reference.encode(TEXT)
        assert tokenizer.end_of_text_id == reference.eos_id()
        assert tokenizer.cuts is None

    def test_a_model_without_an_end_is_asked_about(self, tmp_path):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter((TEXT * 20).splitlines()),
            model_prefix=str(tmp_path / "endless"),
            vocab_size=330,
            hard_vocab_limit=False,
            byte_fallback=True,
            eos_id=-1,
            control_symbols=["<end>"],
            minloglevel=2,
        )

        with pytest.raises(FormatError, match="has no end piece"):
            load(str(tmp_path / "endless.model"))
        assert load(str(tmp_path / "endless.model"), end_of_text="<end>").end_of_text == "<end>"
        with pytest.raises(ValueError, match="is not a piece"):
            load(str(tmp_path / "endless.model"), end_of_text="<nothing>")

    def test_a_model_without_an_unknown_piece_is_refused(self, folder, tmp_path):
        model = (folder / "pieces.model").read_bytes()
        head, _, rest = model.partition(b"<unk>\x15")  # then its score, and its kind: 2, unknown
        assert rest[4:6] == b"\x18\x02"
        (tmp_path / "known.model").write_bytes(head + b"<unk>\x15" + rest[:5] + b"\1" + rest[6:])

        with pytest.raises(FormatError, match=r"known\.model .*has no unknown piece"):
            load(str(tmp_path / "known.model"))

    def test_a_file_that_is_no_model_is_refused(self, tmp_path):
        (tmp_path / "bad.model").write_bytes(b"\x00no model")

        with pytest.raises(FormatError, match="is not a SentencePiece model"):
            load(str(tmp_path / "bad.model"))


def gpt2_as_json(tiktoken):
    """The tokenizers package on GPT-2's vocabulary; a merge is the split a rank came from."""
    from tokenizers import models

    letters = dict(
        zip([*range(33, 127), *range(161, 173), *range(174, 256)], range(1 << 20), strict=False)
    )
    alphabet, extra = {}, 0
    for byte in range(256):
        alphabet[byte] = chr(byte) if byte in letters else chr(256 + extra)
        extra += byte not in letters
    ranks = tiktoken._mergeable_ranks
    spelled = {token: "".join(alphabet[b] for b in token) for token in ranks}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) > 1:
            left, right = parts_below(ranks, token, rank)
            merges.append((spelled[left], spelled[right]))
    vocab = {spelled[token]: rank for token, rank in ranks.items()}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def parts_below(ranks, token, limit):
    """Merge the bytes of a token by ranks below its own: two parts are left."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        best = min(
            range(len(parts) - 1),
            key=lambda i: ranks.get(parts[i] + parts[i + 1], limit),
        )
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts


def test_a_batch_is_decoded_into_its_texts_however_many_ids_it_has():
    """Texts may be of any number of ids, or empty."""
    tokenizer = load("gpt2")
    texts = [
        b"",
        b"one",
        b"",
        "zw\u00f6lf \U0001f33e".encode() * 5,
        b"",
        b"word and " * 200_000,
        b"",
    ]

    for few in (texts[:5], texts, texts[5:], [b""], []):
        ids, ends = tokenizer.encode_batch(few)
        assert tokenizer.decode_batch(ids, ends) == few
        assert tokenizer.decode(ids) == b"".join(few)
        starts = np.append(0, ends)[: len(ends)]
        later = np.minimum(starts + 1, ends)  # without their first ids
        expected = [tokenizer.decode(ids[i:j]) for i, j in zip(later, ends, strict=True)]
        assert tokenizer.decode_batch(ids, ends, later) == expected


LETTERS = {letter: byte for byte, letter in byte_letters().items()}
NO_LETTERS = " \x00\x7f\xa0\xad\u0144\u2581\ud800\U0001f33e"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.sampled_from([*LETTERS, *NO_LETTERS * 4]), max_size=5), unique=True))
def test_byte_level_spellings_are_bytes_and_others_are_their_text(texts):
    model = {"type": "BPE", "vocab": {text: n for n, text in enumerate([*texts, "filled"])}}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False}
    tree = {"model": model, "pre_tokenizer": byte_level, "added_tokens": []}

    found = spellings_of(tree, "tokenizer.json")

    for number, text in enumerate(texts):
        known = [LETTERS.get(letter) for letter in text]
        as_text = text.encode("utf-8", "surrogatepass")
        assert found[number] == (as_text if None in known else bytes(known))
