"""Forget documents of a dataset: overwrite them, keep the place of every other token, certify it.

forget.py tells it. docs/guides/forget.md says what follows for runs that had trained on them.
"""

from tokenmill.forgetting.forget import forget

__all__ = ["forget"]
