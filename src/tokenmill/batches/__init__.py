"""Spans become arrays: loader.py has the online half in one file; batch_maker.py makes a batch."""

from tokenmill.batches.batch_form import BatchForm as BatchForm
