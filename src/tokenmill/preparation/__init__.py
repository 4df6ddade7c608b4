"""The offline half: text files become a dataset of token shards.

prepare.py      the story: all stages in the order they run
stage_table.py  the stages as a table, and the runner of their tasks
settings.py     what may change a byte of the result
inputs.py       which texts are read
val_inputs.py   which of them are held out as validation sets
compare_encoders.py  does the fast encoder give the right ids for them
plan.py         inputs, settings and units, written down before the work begins
words/          which words there are, and how often: for training a tokenizer
from_tokens/    a dataset becomes one with other ids: a preparation with another input
stages/         the stages themselves
workspace/      the folder of a preparation, and where its result goes
budget/         memory, disk, and what to expect
jobs.py         a preparation as numbered jobs, for Slurm and others
pretokenize.py  one text file becomes one .npy: a preparation with another output
train_tokenizer.py  text files become a tokenizer: likewise
"""
