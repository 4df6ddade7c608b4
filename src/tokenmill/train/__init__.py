"""A small GPT and its training loop, fed by the loader.

start.py        train(): settings, data, ranks, then the loop; resume
loop.py         the loop: step, log, validate, save
model.py        the GPT, how it generates, its optimizer and learning rate
config.py       the settings, from JSON, flags and keywords
run_data.py     the three ways of giving data
validation.py   fixed held-out batches, the same on any number of ranks
collectives.py  the few things ranks do together, and the device of each
checkpoint.py   one folder a step, complete or not there
metrics.py      the numbers of every step: metrics.jsonl, TensorBoard, W&B
curve.py        loss.svg, drawn from them
run_page.py     run.html, one page about the run
sample.py       text from a trained model
"""

from tokenmill.train.config import TrainConfig as TrainConfig
from tokenmill.train.sample import sample as sample
from tokenmill.train.start import train as train
