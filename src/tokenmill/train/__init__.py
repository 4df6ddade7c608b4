"""A small GPT and its training loop, fed by the loader.

start.py       train(): settings, data, ranks, then the loop; resume
loop.py        the loop: step, log, validate, save
model.py       the GPT and how it generates
data.py        the three ways of giving data
config.py      the settings, from JSON and flags
checkpoint.py  one folder a step, complete or not there
validation.py  fixed held-out batches, the same on any number of ranks
schedule.py    learning rate and weight decay
ranks.py       the few collectives
record.py      what a run leaves: metrics.py its numbers, curve.py their picture
progress.py    what it shows; signals.py asks it to stop
sample.py      text from a trained model
"""

from tokenmill.train.config import TrainConfig as TrainConfig
from tokenmill.train.sample import sample as sample
from tokenmill.train.start import train as train
