"""What Ctrl-C and SIGTERM do."""

import os
import signal
import subprocess
import sys

import pytest

from tff_partial.system import interrupts


@pytest.fixture(autouse=True)
def handlers(monkeypatch):
    """The usual handlers before and after each test."""
    monkeypatch.setattr(interrupts, "_ended_at_start", False)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_remembered_and_handlers_come_back(number):
    before, called = signal.getsignal(number), []
    with interrupts.StopSignals(called.append) as stop:
        assert stop.received == 0
        send(number)
        send(number)
        assert stop.received == number
    assert called == [number, number]
    assert signal.getsignal(number) == before


def test_a_second_signal_acts_as_usual_where_once_is_enough():
    def interrupt_twice():
        with interrupts.StopSignals(lambda number: None, once=True) as stop:
            send(signal.SIGINT)
            assert stop.received == signal.SIGINT
            send(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()


def test_the_start_ends_with_130_and_a_run_raises():
    interrupts.end_when_interrupted()
    assert signal.getsignal(signal.SIGINT) is interrupts._end
    interrupts.raise_when_interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    interrupts.end_again_when_interrupted()
    assert signal.getsignal(signal.SIGINT) is interrupts._end


def test_handlers_of_others_and_ignored_signals_stay():
    for handler in (signal.SIG_IGN, lambda *unused: None):
        signal.signal(signal.SIGINT, handler)
        interrupts.end_when_interrupted()
        interrupts.end_again_when_interrupted()
        interrupts.raise_when_interrupted()
        assert signal.getsignal(signal.SIGINT) is handler


def test_a_process_that_is_starting_ends_without_a_traceback():
    code = (
        "import os, signal; from tff_partial.system import interrupts; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "interrupts.end_when_interrupted(); os.kill(os.getpid(), signal.SIGINT)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
