"""Orders of axes that have a length and shards, and no tokens."""

from types import SimpleNamespace

import numpy as np

from tokenmill.order.mixture_order import MixtureOrder, deal_stages
from tokenmill.order.order_settings import OrderSettings


def axis(shards):
    return SimpleNamespace(num_tokens=sum(shards), shard_starts=np.cumsum([0, *shards]))


def source_order(num_tokens, block_size, order="shuffle", seed=0, phase=False):
    rules = OrderSettings(block_size, seed, order, phase)
    return rules.source_order(axis([num_tokens]), seed)


def made_order(lengths, *, block_size, stages=None, shards=None, **settings):
    """The order of one source, or with `stages` of a mixture, of axes of these lengths."""
    rules = OrderSettings(block_size, **settings)
    axes = [axis(sizes) for sizes in shards or [[length] for length in lengths]]
    if stages is None:
        return rules.source_order(axes[0], rules.seed)
    sources = [rules.source_order(each, rules.seed_of(i)) for i, each in enumerate(axes)]
    return MixtureOrder(sources, deal_stages(stages, rules.seed))


def located(order, samples):
    """The source and the first token of each sample."""
    spans = order.rows(samples)
    return spans.row_sources, spans.row_starts
