"""Promise: a batch keeps its values for as long as anything of it is held."""

import threading

import numpy as np

from tokenmill import BatchLoader
from tokenmill.batches.spare import Spares
from tokenmill.dataset import from_array

INT32 = np.dtype(np.int32)


def test_an_array_comes_again_when_nobody_holds_it_and_not_before():
    spares = Spares()
    array = spares.array((3, 4), INT32)
    where = array.ctypes.data
    view = array[1:]
    del array

    assert spares.array((3, 4), INT32).ctypes.data != where
    buffer = memoryview(view)
    del view
    assert spares.array((3, 4), INT32).ctypes.data != where
    del buffer
    places = {spares.array((3, 4), INT32).ctypes.data for _ in range(9)}
    assert where in places


def test_arrays_of_another_shape_are_left():
    spares = Spares()
    where = spares.array((3, 4), INT32).ctypes.data

    assert spares.array((4, 3), INT32).shape == (4, 3)
    assert spares.array((3, 4), INT32).ctypes.data == where


def test_every_kept_batch_still_says_what_it_said():
    ids = np.random.default_rng(0).integers(0, 9, 20_000).astype(np.uint16)
    data = from_array(ids, end_of_text_id=8)
    loader = BatchLoader(data, batch_size=4, block_size=32, documents=True)
    kept = []
    for batch in (next(loader) for _ in range(200)):
        if batch.step % 3 == 0:  # others are dropped, and their memory is used again
            said = [batch.tokens, batch.document_ids, batch.positions, batch.loss_mask]
            kept.append((said, [array.copy() for array in said]))

    for said, copies in kept:
        assert all((one == other).all() for one, other in zip(said, copies, strict=True))


def test_threads_never_get_the_same_array():
    spares, barrier = Spares(), threading.Barrier(4)
    damaged = []

    def use(number):
        barrier.wait()
        for _ in range(3000):
            array = spares.array((8,), INT32)
            array[:] = number
            if not (array == number).all():
                damaged.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not damaged
