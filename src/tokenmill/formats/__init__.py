"""Everybody else's token files seen as ours, one small module each."""
