"""The parts of convert.py: the stream that is written, and the manifest of ours."""
