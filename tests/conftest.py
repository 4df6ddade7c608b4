"""Examples that hypothesis makes up have no deadline: how long one takes depends on the machine."""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("tokenmill", deadline=None)
settings.load_profile("tokenmill")
# A shell starts its background jobs with Ctrl-C ignored, and every process would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """In the disguise of a system (tests/disguises), skip what is not so on that system."""
    if system := os.environ.get("DISGUISE"):
        from disguises.differences import DIFFERENCES

        for item in items:
            name = item.nodeid.partition("[")[0].removeprefix("tests/")
            if reason := DIFFERENCES[system].get(name):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def synced(monkeypatch):
    """The real paths of all files and folders that were synced, in order."""
    paths, fsync = [], os.fsync

    def note(descriptor):
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return paths
