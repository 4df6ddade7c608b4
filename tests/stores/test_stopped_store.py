"""A store that does not answer is named in the log, and the batch comes when it answers again."""

import logging
import signal
import threading

import numpy as np
from stores.conftest import new_bucket

import tokenmill
from tokenmill.base.address import join
from tokenmill.batches import BatchForm
from tokenmill.stores import objects


def test_a_stopped_store_is_named_within_the_time(use_server, tmp_path, caplog):
    server = use_server("moto")
    bucket = new_bucket(server)
    tokenmill.write_tokens([np.arange(900)] * 9, tmp_path / "data", end_of_text_id=1000)
    for path in sorted(tmp_path.rglob("data/**/*.*")):
        objects.upload(path, join(bucket, str(path.relative_to(tmp_path / "data"))))
    data = tokenmill.open(bucket, cache_dir=tmp_path / "cache")
    form = BatchForm(stall_seconds=0.3)
    loader = tokenmill.BatchLoader(data, batch_size=4, block_size=16, form=form)
    logged = threading.Event()

    class Continue(logging.Handler):
        def emit(self, record):
            server.process.send_signal(signal.SIGCONT)
            logged.set()

    handler = Continue()
    logging.getLogger("tokenmill").addHandler(handler)
    server.process.send_signal(signal.SIGSTOP)
    try:
        batch = next(loader)
    finally:
        server.process.send_signal(signal.SIGCONT)
        logging.getLogger("tokenmill").removeHandler(handler)
        loader.close()

    local = tokenmill.BatchLoader(tokenmill.open(tmp_path / "data"), batch_size=4, block_size=16)
    assert np.array_equal(batch.inputs, local.batch(0).inputs)
    assert logged.is_set()
    message = caplog.records[0].getMessage()
    assert f"waiting for a batch of 1 files: {bucket}/train/shard_00000.bin, for 0." in message
    assert f"; the store: get {bucket}/train/shard_00000.bin, for 0." in message
    assert loader.stats()["stages"]["fetch"]["max"] > 0.3
