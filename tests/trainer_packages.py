"""Trainers of other projects: skipped where they are missing, but not in `make trainers`."""

import importlib
import os

import pytest


def trainer(name):
    """Import a trainer; without it the module or test that asks is skipped, by its name."""
    if os.environ.get("TOKENMILL_TRAINERS"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name.partition('.')[0]} is missing: make trainers")
