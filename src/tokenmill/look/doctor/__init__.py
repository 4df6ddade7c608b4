"""The traps of token files, each by its name, with the evidence and the fix.

examine.py      opens, samples, asks every check, stops where one finding explains the rest
sample.py       tokens spread over a split, bounded, so that 10 billion tokens take seconds
finding.py      what a check says
headers.py      header-as-tokens
width.py        wrong-dtype, byte-order
vocabulary.py   ids-beyond-vocabulary, one-token
tails.py        zero-tail, padded-tail, zero-hole
endings.py      missing-end-of-text, doubled-end-of-text
shards.py       cut-shard, repeated-shard
order.py        never-shuffled
overlap.py      train-val-overlap
tokenizer.py    wrong-tokenizer
"""

from tokenmill.look.doctor.examine import examine
from tokenmill.look.doctor.finding import Examination, Finding

__all__ = ["Examination", "Finding", "examine"]
