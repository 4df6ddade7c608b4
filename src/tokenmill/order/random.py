"""Windows drawn with replacement: any start, each as likely, as nanoGPT draws them.

Draw g is a function of (seed, g), so it resumes like the other orders. It has no epochs of its own:
after as many draws as there are windows, 63 % of the tokens have been seen, after twice as many
86 %. `shuffle` sees all of them; use this one to repeat what such a run did.
"""

import numpy as np

from tokenmill.order.permutation import mix, round_keys

_OF_DRAWS = 4


def draw(sample: np.ndarray, num_starts: int, *, seed: int) -> np.ndarray:
    """The first token of each draw, in range(num_starts).

    >>> draw(np.arange(4), 1000, seed=0).tolist() == draw(np.arange(4), 1000, seed=0).tolist()
    True
    """
    keys = round_keys(seed, 0, _OF_DRAWS)
    bits = mix(mix(sample.astype(np.uint64) + keys[0]) ^ keys[1])
    # 64 bits over at most 2^40 starts: none is favoured by more than 2^-24 of its share.
    return (bits % np.uint64(num_starts)).astype(np.int64)
