"""The augmentations as augmentation.md describes them: one token at a time, Python's integers.

Nothing here comes from the code under test. A row is a list of (token, document), document -1 for
padding.
"""

from order.plain_order import WORD, keys_of, plain_mix

GOLDEN = 0x9E3779B97F4A7C15


class PlainRandom:
    """The numbers of one row, for the augmentation at a place of the list."""

    def __init__(self, seed, place, sample):
        keys = keys_of(seed, 0, 8, place + 1)
        self.begin = plain_mix(plain_mix((sample + keys[0]) & WORD) ^ keys[1])

    def bits(self, column, draw):
        return plain_mix((self.begin + (8 * column + draw + 1) * GOLDEN) & WORD)

    def is_chosen(self, column, rate):
        both = self.bits(column // 2, 7)
        half = both >> 32 if column % 2 else both & 0xFFFFFFFF
        return half < round(rate * 2**32)


def high(bits):
    return bits >> 32


def below(bits, limit):
    return ((bits & 0xFFFFFFFF) * limit) >> 32


def chance(rate):
    return round(rate * 2**32)


def draw_id(bits, vocab_size, special):
    return [i for i in range(vocab_size) if i not in special][
        below(bits, vocab_size - len([s for s in special if s < vocab_size]))
    ]


def plain_fim(row, random, special, *, rate, spm_rate, prefix_id, middle_id, suffix_id):
    """The tokens of a row after FillInTheMiddle."""
    tokens, column = [token for token, _ in row], 0
    while column < len(row):
        document, start = row[column][1], column
        while column < len(row) and row[column][1] == document:
            column += 1
        stop = column
        if document < 0:
            continue
        for _ in range(2):
            start += start < stop and tokens[start] in special
        stop -= start < stop and tokens[stop - 1] in special
        text = tokens[start:stop]
        if len(text) < 4 or special & set(text):
            continue
        if high(random.bits(start, 0)) >= chance(rate):
            continue
        text = text[:-3]
        first, second = (below(random.bits(start, draw), len(text) + 1) for draw in (2, 3))
        a, b = min(first, second), max(first, second)
        if high(random.bits(start, 1)) < chance(spm_rate):
            new = [prefix_id, suffix_id, *text[b:], middle_id, *text[:b]]
        else:
            new = [prefix_id, *text[:a], suffix_id, *text[b:], middle_id, *text[a:b]]
        tokens[start:stop] = new
    return tokens


def plain_replace(row, random, special, *, rate, vocab_size):
    """The tokens of a row after ReplaceTokens; the last is no input."""
    tokens = [token for token, _ in row]
    for column, (token, document) in enumerate(row[:-1]):
        if token not in special and document >= 0 and random.is_chosen(column, rate):
            tokens[column] = draw_id(random.bits(column, 0), vocab_size, special)
    return tokens


def plain_mask(row, random, special, *, rate, mask_id, keep, random_share, vocab_size):
    """The tokens of a row after MaskTokens, and its labels."""
    tokens, labels = [token for token, _ in row], [-100] * (len(row) - 1)
    for column, (token, document) in enumerate(row[:-1]):
        if token in special or document < 0 or not random.is_chosen(column, rate):
            continue
        labels[column], bits = token, random.bits(column, 0)
        if high(bits) < chance(keep):
            continue
        is_random = high(bits) < chance(keep + random_share)
        tokens[column] = draw_id(bits, vocab_size, special) if is_random else mask_id
    return tokens, labels


def plain_drop(row, random, special, *, rate, padding):
    """The row after DropTokens: (token, document) pairs."""
    left = [
        (token, document)
        for column, (token, document) in enumerate(row)
        if document >= 0 and (token in special or not random.is_chosen(column, rate))
    ]
    return left + [(padding, -1)] * (len(row) - len(left))


def put_together(tokens, prefix_id, middle_id, suffix_id):
    """A text from its rearranged form; what has no sentinels is as it is."""
    if not tokens or tokens[0] != prefix_id:
        return tokens
    suffix_at, middle_at = tokens.index(suffix_id), tokens.index(middle_id)
    prefix, suffix = tokens[1:suffix_at], tokens[suffix_at + 1 : middle_at]
    return [*prefix, *tokens[middle_at + 1 :], *suffix]
