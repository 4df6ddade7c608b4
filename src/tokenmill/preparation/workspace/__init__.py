"""The folder that a preparation works in, and the place that its result goes to (target.py)."""
