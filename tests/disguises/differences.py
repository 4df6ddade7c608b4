# ruff: noqa: E501 - names of tests
"""Tests that run in a disguise with `make test`, and those that a system cannot pass, and why."""

CORE = [
    *(f"tests/base/test_{name}.py" for name in ("atomic", "lock", "hashing", "descriptors")),
    "tests/executors/test_local.py",
    "tests/preparation/test_target.py",
    "tests/cli/test_prepare.py",
    "tests/test_dataset.py",
    "tests/batches/test_resume.py",
    "tests/shards/test_verify.py",
    "tests/conversion/test_convert.py::TestWholeOrNotThere",
    "tests/train/test_checkpoint.py",
]
OTHER_MALLOC = {
    "executors/test_local.py::test_a_worker_keeps_some_memory_and_gives_back_what_is_much": (
        "it is about the malloc of glibc"
    ),
}
NO_FOLDER_SYNC = "Windows has no sync of folders"
DIFFERENCES = {
    "macos": OTHER_MALLOC,
    "windows": {
        **OTHER_MALLOC,
        "base/test_atomic.py::test_a_durable_file_is_synced_before_its_folder": NO_FOLDER_SYNC,
        "base/test_atomic.py::test_a_rename_is_synced": NO_FOLDER_SYNC,
        "base/test_lock.py::test_whoever_makes_a_file_keeps_others_from_it_until_it_is_made": (
            "the lock file stays as long as another process has it open"
        ),
        "base/test_signals.py::test_a_request_to_stop_is_noted_and_nothing_ends": "no SIGUSR1",
        "preparation/test_target.py::test_shards_are_on_the_disk_before_the_manifest_has_its_name": (
            NO_FOLDER_SYNC
        ),
        "train/test_checkpoint.py::test_a_checkpoint_is_on_the_disk_before_it_has_its_name": (
            NO_FOLDER_SYNC
        ),
        "preparation/test_target.py::test_overwrite": (
            "an open file is not replaced: base/test_descriptors.py says what happens"
        ),
        "preparation/test_target.py::test_an_input_with_a_time_in_the_future_is_not_one_that_changed": (
            "a file has no time that only the kernel sets"
        ),
        "test_dataset.py::TestBackends::test_a_file_that_the_network_lost_is_opened_once_more": (
            "it changes os.preadv, which is not there"
        ),
        "conversion/test_convert.py::TestWholeOrNotThere::test_a_copy_that_differs_is_not_put_in_place": (
            "the error holds the files that it is about; the next conversion removes them"
        ),
    },
}
