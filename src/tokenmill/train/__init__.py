"""A small GPT and its training loop, fed by the loader."""
