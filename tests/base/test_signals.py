"""Signals end work in order; a second one ends it at once; handlers come back afterwards."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from tokenmill.base.signals import interrupt_on_sigterm, listen_for_stop, stop_on_signals
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


def test_sigterm_is_a_keyboard_interrupt():
    with pytest.raises(KeyboardInterrupt), interrupt_on_sigterm():
        signal.raise_signal(signal.SIGTERM)


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
        with stop_on_signals(), listen_for_stop() as request, interrupt_on_sigterm():
            seen.append((request.asked, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert seen == [(None, signal.getsignal(signal.SIGTERM))]
