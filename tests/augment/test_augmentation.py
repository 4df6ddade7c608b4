"""Augmented rows, of all kinds, are what a plain loop makes of the rows without augmentation."""

import numpy as np
import pytest
from augment import plain_augment as plain
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import BatchLoader, kernel
from tokenmill.augment import DropTokens, FillInTheMiddle, MaskTokens, ReplaceTokens
from tokenmill.augment.augmentation import Rows
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom
from tokenmill.batches import BatchForm
from tokenmill.dataset import from_array

END, BEGIN, PREFIX, MIDDLE, SUFFIX, MASK = 90, 91, 92, 93, 94, 95
VOCAB = 97
IDS = {"prefix_id": PREFIX, "middle_id": MIDDLE, "suffix_id": SUFFIX}
ROWS = ("windows", "packed", "documents")
rates = st.sampled_from([0.0, 0.02, 0.3, 0.5, 0.9, 1.0])


def documents_of(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [[*rng.integers(0, END, length).tolist(), END] for length in lengths]


def data_of(documents, **more):
    ids = np.concatenate([np.array(document, np.uint16) for document in documents])
    return from_array(ids, end_of_text=END, vocab_size=VOCAB, **more)


def loaders_of(data, augment, rows, **options):
    """Two loaders of the same order: without augmentation, and with it."""
    options = {
        "batch_size": 3,
        "block_size": 24,
        "seed": 5,
        "form": BatchForm(prefetch=0),
        **options,
    }
    if rows == "windows":
        options["documents"] = True
    return BatchLoader(data, rows=rows, **options), BatchLoader(
        data, rows=rows, augment=augment, **options
    )


def plain_rows(batch):
    """Each row as (token, document) pairs."""
    pairs = zip(batch.tokens.tolist(), batch.segments.tolist(), strict=True)
    return [list(zip(*row, strict=True)) for row in pairs]


DATA = data_of(documents_of([1, 2, 3, 4, 5, 7, 30, 60, 11, 12, 13, 90, 8, 9, 20, 1, 6, 17] * 2))


@pytest.mark.parametrize("rows", ROWS)
@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 70), min_size=2, max_size=12),
    rate=rates,
    spm_rate=rates,
    seed=st.integers(0, 2**63 - 1),
)
def test_fill_in_the_middle_is_the_plain_loop(rows, lengths, rate, spm_rate, seed):
    data = data_of(documents_of([*lengths, 60]))
    fim = FillInTheMiddle(rate, spm_rate, **IDS)
    before, after = loaders_of(data, [fim], rows, seed=seed)
    special = {END, PREFIX, MIDDLE, SUFFIX}

    for _ in range(3):
        one, other = next(before), next(after)
        for row, tokens, sample in zip(
            plain_rows(one), other.tokens.tolist(), one.samples.tolist(), strict=True
        ):
            random = plain.PlainRandom(seed, 0, sample)
            assert tokens == plain.plain_fim(
                row, random, special, rate=rate, spm_rate=spm_rate, **IDS
            )
        assert np.array_equal(one.segments, other.segments)
        assert np.array_equal(one.loss_mask, other.loss_mask)
        assert np.array_equal(one.cu_seqlens, other.cu_seqlens)
        assert np.array_equal(np.where(one.loss_mask, other.targets, -100), other.labels)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("begin_token", [None, BEGIN])
@pytest.mark.parametrize("spm_rate", [0.0, 0.5, 1.0])
def test_documents_are_put_together_again(rows, begin_token, spm_rate):
    """All of each document is there, but its last three tokens, and its special ids stay put."""
    more = {} if rows == "windows" else {"begin_token": begin_token}
    fim = FillInTheMiddle(1.0, spm_rate, **IDS)
    before, after = loaders_of(DATA, [fim], rows, **more)
    rearranged = 0
    for _ in range(12):
        one, other = next(before), next(after)
        for row, new_tokens in zip(plain_rows(one), other.tokens.tolist(), strict=True):
            for document in {document for _, document in row} - {-1}:
                places = [i for i, (_, owner) in enumerate(row) if owner == document]
                old = [row[i][0] for i in places]
                new = [new_tokens[i] for i in places]
                if old[0] == BEGIN:
                    assert old.pop(0) == new.pop(0)
                if old and old[-1] == END:
                    assert old.pop() == new.pop()
                rearranged += old != new
                kept = old[:-3] if len(old) > 3 else old
                assert plain.put_together(new, **IDS) == kept
    assert rearranged > 20


@pytest.mark.parametrize("rows", ROWS)
def test_marks_before_documents_stay_where_they_are(rows):
    """As in llm.c's files: the end-of-text id begins a document, and here a begin token follows."""
    documents = [[END, BEGIN, *range(length)] for length in (5, 30, 2, 60, 12, 9) * 3]
    data = data_of(documents, end_of_text_comes="before", begin_token=BEGIN)
    fim = FillInTheMiddle(1.0, 0.5, **IDS)
    before, after = loaders_of(data, [fim], rows)
    special = {END, BEGIN, PREFIX, MIDDLE, SUFFIX}

    for _ in range(4):
        one, other = next(before), next(after)
        for row, tokens, sample in zip(
            plain_rows(one), other.tokens.tolist(), one.samples.tolist(), strict=True
        ):
            random = plain.PlainRandom(5, 0, sample)
            assert tokens == plain.plain_fim(row, random, special, rate=1.0, spm_rate=0.5, **IDS)
        assert PREFIX in other.tokens
        marks = np.isin(one.tokens, (END, BEGIN))
        assert np.array_equal(one.tokens[marks], other.tokens[marks])


@pytest.mark.parametrize("rows", ROWS)
@settings(max_examples=20, deadline=None)
@given(rate=rates, seed=st.integers(0, 2**63 - 1), lengths=st.lists(st.integers(0, 50), min_size=3))
def test_replace_is_the_plain_loop_and_targets_stay(rows, rate, seed, lengths):
    data = data_of(documents_of([*lengths, 60]))
    before, after = loaders_of(data, [ReplaceTokens(rate)], rows, seed=seed)

    for _ in range(3):
        one, other = next(before), next(after)
        for row, tokens, sample in zip(
            plain_rows(one), other.tokens.tolist(), one.samples.tolist(), strict=True
        ):
            random = plain.PlainRandom(seed, 0, sample)
            expected = plain.plain_replace(row, random, {END}, rate=rate, vocab_size=VOCAB)
            assert tokens == expected
        assert np.array_equal(other.labels, one.labels)
        counted = one.loss_mask
        assert np.array_equal(other.targets[counted], one.targets[counted])


@pytest.mark.parametrize("rows", ROWS)
@settings(max_examples=20, deadline=None)
@given(rate=rates, keep=st.sampled_from([0.0, 0.1, 0.5]), share=st.sampled_from([0.0, 0.1, 0.5]))
def test_mask_is_the_plain_loop(rows, rate, keep, share):
    before, after = loaders_of(DATA, [MaskTokens(rate, MASK, keep, share)], rows)

    for _ in range(3):
        one, other = next(before), next(after)
        for row, tokens, labels, sample in zip(
            plain_rows(one), other.tokens.tolist(), other.labels.tolist(), one.samples.tolist(),
            strict=True,
        ):  # fmt: skip
            random = plain.PlainRandom(5, 0, sample)
            assert (tokens, labels) == plain.plain_mask(
                row, random, {END, MASK}, rate=rate, mask_id=MASK, keep=keep, random_share=share,
                vocab_size=VOCAB,
            )  # fmt: skip
        assert np.array_equal(other.loss_mask, other.labels != -100)
        assert np.array_equal(other.targets[other.loss_mask], other.labels[other.loss_mask])


@pytest.mark.skipif(kernel.compiled is None, reason="the loops are not compiled")
@pytest.mark.parametrize("rows", ROWS)
def test_without_the_kernel_rows_are_the_same(monkeypatch, rows):
    augment = [
        FillInTheMiddle(0.8, spm_rate=0.5, **IDS),
        DropTokens(0.1),
        ReplaceTokens(0.1),
        MaskTokens(0.2, MASK, 0.1, 0.1),
    ]
    _, one = loaders_of(DATA, augment, rows)
    made = [next(one) for _ in range(4)]
    monkeypatch.setattr(kernel, "compiled", None)
    _, other = loaders_of(DATA, augment, rows)

    for batch in made:
        again = next(other)
        assert np.array_equal(again.tokens, batch.tokens)
        assert np.array_equal(again.labels, batch.labels)


@pytest.mark.parametrize("with_kernel", [True, False])
def test_the_mask_may_be_the_first_id(monkeypatch, with_kernel):
    monkeypatch.setattr(kernel, "compiled", kernel.compiled if with_kernel else None)
    before, after = loaders_of(DATA, [MaskTokens(0.5, 0, 0.0, 0.0)], "windows")

    one, other = next(before), next(after)

    masked = other.tokens != one.tokens
    assert masked.any()
    assert not other.tokens[masked].any()


@pytest.mark.parametrize("rows", ROWS)
@settings(max_examples=20, deadline=None)
@given(rate=st.sampled_from([0.0, 0.02, 0.3, 0.9, 0.999]), seed=st.integers(0, 2**63 - 1))
def test_drop_is_the_plain_loop_and_the_fields_follow(rows, rate, seed):
    before, after = loaders_of(DATA, [DropTokens(rate)], rows, seed=seed)

    for _ in range(3):
        one, other = next(before), next(after)
        begins = []
        for number, (row, sample) in enumerate(
            zip(plain_rows(one), one.samples.tolist(), strict=True)
        ):
            random = plain.PlainRandom(seed, 0, sample)
            expected = plain.plain_drop(row, random, {END}, rate=rate, padding=END)
            assert other.tokens[number].tolist() == [token for token, _ in expected]
            owners = [owner for _, owner in expected]
            labels = [
                token if owner == owners[i] and owner >= 0 else -100
                for i, (token, owner) in enumerate(expected[1:])
            ]
            assert other.labels[number].tolist() == labels
            assert (other.segments[number] < 0).tolist() == [owner < 0 for owner in owners]
            starts = [i for i in range(24) if i == 0 or owners[i] != owners[i - 1]]
            begins += [24 * number + i for i in starts]
            positions = [i - max(s for s in starts if s <= i) for i in range(24)]
            assert other.positions[number].tolist() == positions
        assert other.cu_seqlens[: len(begins)].tolist() == begins
        assert set(other.cu_seqlens[len(begins) :].tolist()) == {3 * 24}
        assert np.array_equal(other.loss_mask, other.labels != -100)


def test_all_of_them_one_after_another():
    """Each draws numbers of its own, and sees what the ones before it made."""
    augment = [
        FillInTheMiddle(0.7, 0.5, **IDS),
        DropTokens(0.1),
        ReplaceTokens(0.2),
        MaskTokens(0.3, MASK),
    ]
    before, after = loaders_of(DATA, augment, "packed")
    special = {END, PREFIX, MIDDLE, SUFFIX, MASK}
    for _ in range(6):
        one, other = next(before), next(after)
        for number, (row, sample) in enumerate(
            zip(plain_rows(one), one.samples.tolist(), strict=True)
        ):
            numbers = [plain.PlainRandom(5, place, sample) for place in range(4)]
            tokens = plain.plain_fim(row, numbers[0], special, rate=0.7, spm_rate=0.5, **IDS)
            row = [(token, owner) for token, (_, owner) in zip(tokens, row, strict=True)]
            row = plain.plain_drop(row, numbers[1], special, rate=0.1, padding=END)
            clean = [token for token, _ in row]
            tokens = plain.plain_replace(row, numbers[2], special, rate=0.2, vocab_size=VOCAB)
            row = [(token, owner) for token, (_, owner) in zip(tokens, row, strict=True)]
            tokens, labels = plain.plain_mask(
                row, numbers[3], special, rate=0.3, mask_id=MASK, keep=0.1, random_share=0.1,
                vocab_size=VOCAB,
            )  # fmt: skip
            assert other.tokens[number].tolist() == tokens
            labels = [-100 if was < 0 else clean[i] for i, was in enumerate(labels)]
            assert other.labels[number].tolist() == labels


# Rates over a million tokens


def close(found, rate, count, sigmas=5):
    return abs(found - rate) <= sigmas * np.sqrt(rate * (1 - rate) / count)


@pytest.fixture(scope="module")
def million():
    """A million tokens in documents of 200, as batches of 100 rows of 1000."""
    ids = np.random.default_rng(1).integers(0, END, 1_000_001).astype(np.uint16)
    ids[199::200] = END
    data = from_array(ids, end_of_text=END, vocab_size=VOCAB)

    def load(augment):
        loader = BatchLoader(
            data, batch_size=100, block_size=1000, epochs=1, documents=True, augment=augment
        )
        return list(loader)

    return load


def test_tokens_change_at_the_rates_asked_for(million):
    plain_batches = million(None)
    texts = np.concatenate([batch.inputs for batch in plain_batches])
    ordinary = texts != END
    count = int(ordinary.sum())

    replaced = np.concatenate([batch.inputs for batch in million([ReplaceTokens(0.2)])])
    # A drawn id is the old one with the chance 1 in 96.
    assert close((replaced != texts)[ordinary].mean(), 0.2 * (1 - 1 / (VOCAB - 1)), count)
    assert (replaced == texts)[~ordinary].all()

    masked = million([MaskTokens(0.15, MASK)])
    inputs = np.concatenate([batch.inputs for batch in masked])
    chosen = np.concatenate([batch.labels for batch in masked]) >= 0
    assert close(chosen[ordinary].mean(), 0.15, count)
    of_chosen = int(chosen.sum())
    assert close((inputs[chosen] == MASK).mean(), 0.8, of_chosen)
    assert close((inputs[chosen] == texts[chosen]).mean(), 0.1 + 0.1 / (VOCAB - 2), of_chosen)
    assert not chosen[~ordinary].any()

    dropped = million([DropTokens(0.25)])
    left = sum(int((batch.segments >= 0).sum()) for batch in dropped)
    rows = np.concatenate([batch.tokens for batch in plain_batches])
    stay = int((rows == END).sum())
    assert close((left - stay) / (rows.size - stay), 0.75, rows.size - stay)


def test_documents_are_rearranged_at_the_rates_asked_for(million):
    batches = million([FillInTheMiddle(0.4, 0.3, **IDS)])
    tokens = np.concatenate([batch.tokens for batch in batches])

    rearranged = np.count_nonzero(tokens == PREFIX)
    spm = np.count_nonzero((tokens[:, :-1] == PREFIX) & (tokens[:, 1:] == SUFFIX))
    assert close(rearranged / 5000, 0.4, 5000)  # five texts a row of 1000, and the first of a sixth
    # A PSM text with an empty prefix looks alike: one in about 100.
    assert close(spm / rearranged, 0.3 + 0.7 * 2 / 197, rearranged, sigmas=5)


def test_random_numbers_are_even_and_neighbours_independent():
    """Chi-squared of the bytes of the numbers, and the correlation of neighbours."""
    random = RowRandom(3, 0, np.arange(500))
    bits = random.bits(np.arange(500)[:, None], np.arange(500))
    for shift in range(0, 64, 8):
        counts = np.bincount((bits >> np.uint64(shift)).astype(np.uint8).ravel(), minlength=256)
        chi_squared = ((counts - bits.size / 256) ** 2 / (bits.size / 256)).sum()
        assert 255 - 5 * np.sqrt(2 * 255) < chi_squared < 255 + 5 * np.sqrt(2 * 255)
    numbers = random.uniform(500)
    limit = 5 / np.sqrt(numbers.size)
    assert abs(np.corrcoef(numbers[:, 1:].ravel(), numbers[:, :-1].ravel())[0, 1]) < limit
    assert abs(np.corrcoef(numbers[1:].ravel(), numbers[:-1].ravel())[0, 1]) < limit
    chosen = random.chosen(0.3, 500)
    pairs = (chosen[:, 1:] & chosen[:, :-1]).mean()
    assert close(pairs, 0.09, chosen.size, sigmas=8)


def test_what_is_banned_moves_with_its_token_and_stays_in_its_row():
    tokens = np.arange(24).reshape(2, 12) + 1
    banned = np.zeros(tokens.shape, bool)
    banned[1, 2:9] = True
    ids = KnownIds.of([data_of([[1, END]])], None, BatchForm())
    filled = np.array([12, 12])
    rows = Rows(tokens.copy(), np.array([3, 4]), filled, None, banned.copy(), ids=ids)

    DropTokens(0.4).apply(rows, RowRandom(0, 0, rows.samples))

    assert (rows.tokens[:, -1] == END).all()
    assert np.array_equal(rows.banned, np.isin(rows.tokens, tokens[banned]))
