"""The offline half: text files become a dataset of token shards.

Read prepare.py first: it has all stages in the order they run. planning/ is before them, workspace/
is the folder they work in. retokenize.py and pretokenize.py have another input, or another output.
"""

from tokenmill.preparation.planning.settings import Chat, Details, Run

__all__ = ["Chat", "Details", "Run"]
