"""Rows change before they are served, in ways that follow from their sample numbers.

augmentation.py says what an augmentation is, augmenter.py applies a list of them.
"""

from tokenmill.augment.fill_in_the_middle import FillInTheMiddle
from tokenmill.augment.token_noise import DropTokens, MaskTokens, ReplaceTokens

__all__ = ["DropTokens", "FillInTheMiddle", "MaskTokens", "ReplaceTokens"]
