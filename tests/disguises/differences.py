"""The tests that run in a disguise with `make test`, and those that do not hold on a system, and why."""

CORE = [
    "tests/base",
    "tests/executors/test_local.py",
    "tests/preparation/test_plain_prepare.py",
    "tests/preparation/test_target.py",
    "tests/promises/test_same_bytes.py",
    "tests/test_dataset.py",
    "tests/batches/test_resume.py",
    "tests/conversion/test_convert.py",
    "tests/shards/test_verify.py",
    "tests/train/test_resume.py",
    "tests/cli/test_outcome.py",
]
NO_FOLDER_SYNC = "Windows has no sync of folders"
DIFFERENCES = {
    "macos": {},
    "windows": {
        "base/test_atomic.py::test_a_durable_file_is_synced_before_its_folder": NO_FOLDER_SYNC,
        "base/test_atomic.py::test_a_rename_is_synced": NO_FOLDER_SYNC,
        "base/test_lock.py::test_whoever_makes_a_file_keeps_others_from_it_until_it_is_made": (
            "the lock file stays as long as another process has it open"
        ),
        "base/test_signals.py::test_a_request_to_stop_is_noted_and_nothing_ends": "no SIGUSR1",
    },
}
