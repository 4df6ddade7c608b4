"""Input files: found (sources.py), recognized (file_kind.py), and cut into units (units.py)."""
