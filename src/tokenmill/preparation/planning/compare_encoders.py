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

from tokenmill.base.human import one_line
from tokenmill.errors import BadInputError, MissingExtraError
from tokenmill.text.cleaning.clean_chunks import clean_chunk
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import cut_into_units
from tokenmill.text.reading.chunks import ReadRules
from tokenmill.text.reading.read import read_unit
from tokenmill.tokens.cuts import AT_CHARACTERS
from tokenmill.tokens.same_ids import first_difference
from tokenmill.tokens.tokenizer import Tokenizer

PLACES = 16
SAMPLE_BYTES = 16 << 10  # of text at each place
CHUNK_BYTES = 64 << 10
CHUNKS = 3  # a piece of a long document, whole ones, and a piece of another
SHOWN_CHARACTERS = 60


def choose_encoder(
    tokenizer: Tokenizer,
    sources: Sequence[Source],
    rules: ReadRules,
    *,
    normalize: bool,
    say: Callable[[str], None],
) -> Tokenizer:
    """Return this tokenizer, or its package's own encoder if ids of a sample differ."""
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
    """Yield texts from places that are spread over all inputs, each with the name of its file."""
    rules = replace(
        rules,
        max_document_bytes=CHUNK_BYTES,
        long_line=min(rules.long_line, CHUNK_BYTES),
        cuts=AT_CHARACTERS,
        chunk_bytes=CHUNK_BYTES,
    )
    readable = [source for source in sources if source.kind != "unreadable"]
    num_bytes = sum(source.size for source in readable)
    units = cut_into_units(readable, max(CHUNK_BYTES, num_bytes // PLACES))
    for unit in units[:: -(-len(units) // PLACES)] if units else ():
        source = readable[unit.source]
        left = SAMPLE_BYTES
        with suppress(BadInputError):  # whoever reads all of it reports it
            for chunk in islice(read_unit(source, unit, rules), CHUNKS):
                for text in clean_chunk(chunk, normalize=normalize, long_line=None).texts:
                    if left > 0:
                        yield source.name, text[:left].decode("utf-8", "ignore").encode()
                        left -= len(text)


def _shortest_difference(tokenizer: Tokenizer, exact: Tokenizer, text: bytes) -> str:
    """Show a line that differs by itself, or else the beginning of the text."""
    lines = text.split(b"\n")
    number = first_difference(tokenizer.encode_batch, exact.encode_batch, lines)
    found = (text if number is None else lines[number]).decode()
    return f'"{one_line(found[:SHOWN_CHARACTERS])}{"..." * (len(found) > SHOWN_CHARACTERS)}"'
