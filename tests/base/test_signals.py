"""Signals end work in order; a second one ends it at once; handlers come back afterwards."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from tokenmill.base.signals import interrupt_on_signals, listen_for_stop, stop_on_signals
from tokenmill.errors import Stopped


@pytest.fixture(autouse=True)
def handlers():
    """After each test the handlers are those from before it."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_becomes_stopped_with_a_hint(number):
    with pytest.raises(Stopped, match=f"stopped by {number.name}") as stopped, stop_on_signals():
        signal.raise_signal(number)

    assert "resumes" in stopped.value.hint


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_keyboard_interrupt(number):
    with pytest.raises(KeyboardInterrupt), interrupt_on_signals():
        signal.raise_signal(number)


def test_an_interrupt_that_was_caught_does_not_end_the_process_later():
    """Python remembers a KeyboardInterrupt in `exec`, and ends by the signal though it was caught;
    every dataclass and named tuple that is imported is such an `exec`."""
    code = """if True:
        import signal
        from tokenmill.base.signals import interrupt_on_signals
        try:
            with interrupt_on_signals():
                exec("signal.raise_signal(signal.SIGINT)")
        except KeyboardInterrupt:
            raise SystemExit(75)
    """

    assert subprocess.run([sys.executable, "-c", code]).returncode == 75


INTERRUPT = """if True:
    import os, signal, sys

    class Interrupt:
        def find_spec(self, name, *_):
            if name == os.environ["INTERRUPT_AT"]:
                os.kill(os.getpid(), signal.SIGINT)

    sys.meta_path.insert(0, Interrupt())
"""


@pytest.mark.parametrize(
    "module", ["click", "tokenmill.cli.look", "dataclasses", "tokenmill.dataset", "numpy"]
)
def test_ctrl_c_during_an_import_ends_the_command_with_one_line(tmp_path, module):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    (tmp_path / "x.bin").write_bytes(bytes(100))
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    done = subprocess.run(
        [sys.executable, "-m", "tokenmill", "inspect", str(tmp_path / "x.bin")],
        env={**os.environ, "PYTHONPATH": paths, "INTERRUPT_AT": module},
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout, done.stderr) == (75, "", "stopped\n")


def test_a_command_that_ignores_ctrl_c_still_does():
    """As a shell wants it of what runs in its background."""
    code = """if True:
        import signal, sys
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from tokenmill.__main__ import run
        sys.argv[1:] = ["--version"]
        try:
            run()
        finally:
            signal.raise_signal(signal.SIGINT)
    """

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0
    assert done.stdout.startswith("tokenmill")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_request_to_stop_is_noted_and_nothing_ends(number):
    with listen_for_stop() as request:
        assert request.asked is None
        os.kill(os.getpid(), number)
        assert request.asked == number.name


@pytest.mark.parametrize("context", ["stop_on_signals()", "listen_for_stop()"])
def test_a_second_signal_ends_the_process(context):
    code = f"""if True:
        import time
        from tokenmill.base.signals import listen_for_stop, stop_on_signals
        with {context} as request:
            try:
                print("ready", flush=True)
                while request is None or request.asked is None:
                    time.sleep(0.01)
            finally:
                print("asked", flush=True)
                time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == b"asked\n"
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)

    assert process.wait(10) == -signal.SIGTERM


def test_other_threads_are_left_alone():
    seen = []

    def work():
        with stop_on_signals(), listen_for_stop() as request, interrupt_on_signals():
            seen.append((request.asked, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert seen == [(None, signal.getsignal(signal.SIGTERM))]
