"""Before hours of work: does the fast encoder give the right ids for this input?

A tokenizer was compared with the package that its file is from when it was loaded, on texts of many
scripts. Here both encode a sample of the input itself, 256 KB from 16 places. If a single id
differs, the package encodes all of it. The sample is a function of the inputs, and the choice is
kept with the plan: workers, a resumed run and other machines encode with the same.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from tokenmill.base.address import is_remote
from tokenmill.base.human import one_line
from tokenmill.errors import BadInputError, MissingExtraError
from tokenmill.text.cleaning.clean_chunks import clean_chunk
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.chunks import ReadRules
from tokenmill.text.reading.read import read_unit
from tokenmill.tokens.cuts import AT_CHARACTERS
from tokenmill.tokens.same_ids import first_difference
from tokenmill.tokens.tokenizer import Tokenizer

PLACES = 16
AT_A_PLACE = 16 << 10  # bytes of text
READ_AT_ONCE = 64 << 10
CHUNKS_AT_A_PLACE = 3  # a piece of a long document, whole ones, and a piece of another
SHOWN_CHARACTERS = 60


def choose_encoder(
    tokenizer: Tokenizer,
    sources: Sequence[Source],
    rules: ReadRules,
    *,
    normalize: bool,
    say: Callable[[str], None],
) -> Tokenizer:
    """This tokenizer, or the same one through the package it is from, if ids of a text differ."""
    exact = tokenizer.reference()
    if exact is None:
        return tokenizer
    sample = list(_sample(sources, rules, normalize))
    texts = [text for _, text in sample]
    try:
        number = first_difference(tokenizer.encode_batch, exact.encode_batch, texts)
    except MissingExtraError as missing:
        say(f"ids were not compared on a sample of the input: {missing.message}")
        return tokenizer
    if number is None:
        return tokenizer
    shown = _shortest_difference(tokenizer, exact, texts[number])
    say(
        f"{tokenizer.name}: {tokenizer.backend} gives other ids than {exact.backend} for {shown} "
        f"in {sample[number][0]}; {exact.backend} encodes all of it, which is slower"
    )
    return exact


def _sample(
    sources: Sequence[Source], rules: ReadRules, normalize: bool
) -> Iterator[tuple[str, bytes]]:
    """Texts from places that are spread evenly over all bytes, each with the name of its file."""
    rules = replace(
        rules,
        max_document_bytes=READ_AT_ONCE,
        long_line=min(rules.long_line, READ_AT_ONCE),
        cuts=AT_CHARACTERS,
        chunk_bytes=READ_AT_ONCE,
    )
    for source, unit in _places(sources):
        chunks = read_unit(source, unit, rules)
        left = AT_A_PLACE
        with suppress(BadInputError):  # whoever reads all of it reports it
            for chunk in islice(chunks, CHUNKS_AT_A_PLACE):
                for text in clean_chunk(chunk, normalize=normalize, long_line=None).lines.texts:
                    if left > 0:
                        yield source.name, text[:left].decode("utf-8", "ignore").encode()
                        left -= len(text)


def _places(sources: Sequence[Source]) -> Iterator[tuple[Source, Unit]]:
    """Parts of files that are read in a moment; of a file that is not cut, its beginning."""
    before, step = 0, max(READ_AT_ONCE, sum(source.size for source in sources) // PLACES)
    for number, source in enumerate(sources):
        is_cut = source.compression is None and source.kind in ("text", "jsonl")
        first = -before % step  # the places are the multiples of `step`, over all files
        before += source.size
        if first >= source.size or source.kind == "unreadable":
            continue
        if is_cut:
            for start in range(first, source.size, step):
                yield source, Unit(number, start, min(source.size, start + READ_AT_ONCE))
        elif not is_remote(source.path):
            is_parquet = source.kind == "parquet"  # whose units are row groups
            yield source, Unit(number, 0, 1 if is_parquet else source.size)


def _shortest_difference(tokenizer: Tokenizer, exact: Tokenizer, text: bytes) -> str:
    """A line that differs by itself, or else the beginning of the text."""
    lines = text.split(b"\n")
    number = first_difference(tokenizer.encode_batch, exact.encode_batch, lines)
    found = (text if number is None else lines[number]).decode()
    return f'"{one_line(found[:SHOWN_CHARACTERS])}{"..." * (len(found) > SHOWN_CHARACTERS)}"'
