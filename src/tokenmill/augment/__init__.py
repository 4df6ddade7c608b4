"""Rows change before they are served, in ways that follow from their sample numbers.

augmenter.py           a list of augmentations, bound to some data, applied to batches
augmentation.py        what an augmentation is, the rows that it is given, a function as one
row_random.py          random numbers of a row: a function of seed, sample and column
known_ids.py           the ids that no augmentation touches; sentinels by name; ids drawn at random
fill_in_the_middle.py  FillInTheMiddle: prefix, suffix, middle of each document, with sentinels
token_noise.py         MaskTokens, ReplaceTokens, DropTokens
"""

from tokenmill.augment.fill_in_the_middle import FillInTheMiddle
from tokenmill.augment.token_noise import DropTokens, MaskTokens, ReplaceTokens

__all__ = ["DropTokens", "FillInTheMiddle", "MaskTokens", "ReplaceTokens"]
