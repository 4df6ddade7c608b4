"""Any format to any other: convert.py reads, writes beside the target, compares, renames."""
