"""Tests that do not hold on a system, and why: they test what only the others have."""

NO_FOLDER_SYNC = "Windows has no sync of folders"
DIFFERENCES = {
    "macos": {},
    "windows": {
        "base/test_atomic.py::test_a_durable_file_is_synced_before_its_folder": NO_FOLDER_SYNC,
        "base/test_atomic.py::test_a_rename_is_synced": NO_FOLDER_SYNC,
        "base/test_lock.py::test_whoever_makes_a_file_keeps_others_from_it_until_it_is_made": (
            "the lock file stays as long as another process has it open"
        ),
        "base/test_signals.py::test_a_signal_asks": "there is no SIGUSR1",
    },
}
