"""Rows change before they are served, in ways that follow from their sample numbers.

augmenter.py           a list of augmentations, bound to some data, applied to batches
augmentation.py        what an augmentation is, and the rows that it is given
row_random.py          random numbers of a row: a function of seed, sample and column
known_ids.py           the ids that no augmentation touches; sentinels by name; ids drawn at random
fill_in_the_middle.py  FillInTheMiddle: prefix, suffix, middle of each document, with sentinels
input_noise.py         MaskTokens and ReplaceTokens: inputs chosen at random become another id
drop_tokens.py         DropTokens
own_function.py        a function of the user's, with a name and a version; what it may not do
"""

from tokenmill.augment.drop_tokens import DropTokens
from tokenmill.augment.fill_in_the_middle import FillInTheMiddle
from tokenmill.augment.input_noise import MaskTokens, ReplaceTokens

__all__ = ["DropTokens", "FillInTheMiddle", "MaskTokens", "ReplaceTokens"]
