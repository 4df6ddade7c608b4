"""missing-end-of-text and doubled-end-of-text: where one document stops and the next begins.

Without a mark the model never learns that a text ends, and takes two documents for one. With two
marks (one by the tokenizer, one by the writer) it learns that an end is followed by an end.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.look.doctor.finding import Finding
from tokenmill.look.doctor.token_sample import Patient, percent

NUM_DOCUMENTS = 200
LEAST_DOCUMENTS = 8
LEAST_TOKENS = 200_000  # a split without one mark may be one book; more is more likely a mistake
DOUBLED = 0.2  # share of marks that are followed by another; empty documents make a few


def check(patient: Patient) -> Iterator[Finding]:
    """By the index where there is one, else by the marks in the sample."""
    yield from _doubled(patient)
    if patient.data.num_documents is not None:
        yield from _by_index(patient)
    elif patient.data.end_of_text_id is not None:
        yield from _by_marks(patient)


def _doubled(patient: Patient) -> Iterator[Finding]:
    end = patient.data.end_of_text_id
    if end is None:
        return
    marks = pairs = 0
    for block in patient.blocks:
        is_mark = block.ids == end
        marks += int(is_mark.sum())
        pairs += int((is_mark[1:] & is_mark[:-1]).sum())
    # Padding is a run of marks, which tails.py names; here they come two by two.
    if pairs >= LEAST_DOCUMENTS and DOUBLED < pairs / marks < 0.7:
        yield Finding(
            "doubled-end-of-text",
            patient.split,
            f"{pairs:,} of {marks:,} end-of-text ids ({end}) are followed by another",
            "tokenizer and writer each added one: prepare again with only one of them adding it",
        )


def _by_marks(patient: Patient) -> Iterator[Finding]:
    ids, end = patient.ids, patient.data.end_of_text_id
    if len(ids) >= LEAST_TOKENS and not bool((ids == end).any()):
        yield Finding(
            "missing-end-of-text",
            patient.split,
            f"not one of {len(ids):,} tokens is the end-of-text id {end}",
            "prepare again with an end-of-text id after each document; if it is one long text, "
            "this is as it should be",
            is_fault=False,
        )


def _by_index(patient: Patient) -> Iterator[Finding]:
    data = patient.data
    if data.details.get("rows"):
        return
    ranges = list(patient.documents(NUM_DOCUMENTS))
    if len(ranges) < LEAST_DOCUMENTS:
        return
    last = np.concatenate([data.tokens(stop - 1, stop) for _, stop in ranges])
    first = np.concatenate([data.tokens(start, start + 1) for start, _ in ranges])
    end = data.end_of_text_id
    if end is not None:
        marked = int(((last == end) | (first == end)).sum())
        if marked < len(ranges):
            yield _missing(patient, len(ranges) - marked, len(ranges), f"the end-of-text id {end}")
        return
    # Nothing names the id: good documents still agree on their last token, or on their first, and
    # have it nowhere else (as they have the end of a line).
    agree = max(_marked_by_their_own(patient, ranges, x) for x in (last, first))
    if agree < 0.9 * len(ranges):
        yield _missing(patient, len(ranges) - agree, len(ranges), "a mark common to all")


def _marked_by_their_own(patient: Patient, ranges: list[tuple[int, int]], edge: np.ndarray) -> int:
    """Documents that have the most common token of their edges once, there and nowhere else."""
    values, counts = np.unique(edge, return_counts=True)
    mark = values[counts.argmax()]
    found = 0
    for (start, stop), token in zip(ranges, edge.tolist(), strict=True):
        if token == mark:
            found += int((patient.data.tokens(start, stop) == mark).sum()) == 1
    return found


def _missing(patient: Patient, without: int, looked_at: int, what: str) -> Finding:
    known = patient.data.end_of_text_id is not None
    return Finding(
        "missing-end-of-text",
        patient.split,
        f"{without:,} of {looked_at:,} documents looked at ({percent(without, looked_at)}) neither "
        f"end nor begin with {what}",
        "write the files again with a mark at each end (Megatron: --append-eod; datatrove: "
        "eos_token)",
        is_fault=known and patient.data.format == "tokenmill",
    )
