"""The offline half: text files become a dataset of token shards.

prepare.py          the story: all stages in the order they run
planning/           what is read, by which settings, within which limits
stage_table.py      the stages as a table, and the runner of their tasks
stages/             the stages themselves
workspace/          the folder of a preparation, and where its result goes
estimate.py         tokens, size and time, from one percent of the input
jobs.py             a preparation as numbered jobs, for Slurm and others
retokenize.py       a dataset is the input: its documents become text, then other ids
pretokenize.py      one text file becomes one .npy: a preparation with another output
train_tokenizer.py  text files become a tokenizer: likewise
count_words.py      its own stages: words are counted, added up, and chosen
"""

from tokenmill.preparation.planning.settings import Details, Run

__all__ = ["Details", "Run"]
