"""The stages of `prepare.py`, one a file, and what they share."""
