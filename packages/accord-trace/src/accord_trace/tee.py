"""Runs an agent, passes its stdin and stdout through unchanged, and records them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from accord.transports.base import READ_BYTES
from accord.transports.command_line import find_program, why_not_started
from accord_trace.recorder_process import RecorderProcess
from accord_trace.records import Direction

_SWITCH_S = 0.0005  # the other direction waits at most this long for the interpreter
_STDIN, _STDOUT = 0, 1


def run_tee(argv: Sequence[str], open_recorder: Callable[[], RecorderProcess]) -> int:
    """Run a command between stdin and stdout; return its exit status.

    Bytes pass as they are, also those that are not protocol; stderr is inherited. They are given to
    the recorder first, so that no response is recorded before its request. If one side does not
    read, the other one stops, as in a pipe. Signals that end this process go to the agent.
    Raise `StartError`, and record nothing, if the agent cannot be started; raise what
    `open_recorder` raises, after the agent was killed.
    """
    program = find_program(argv[0], None, dict(os.environ))
    try:
        agent = subprocess.Popen(
            [program, *argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    except OSError as exc:
        raise why_not_started(argv[0], program, exc) from exc
    assert agent.stdin is not None
    assert agent.stdout is not None
    try:
        recorder = open_recorder()
    except BaseException:
        with agent:  # closes its pipes
            agent.kill()
        raise
    try:
        return _pass_all(agent, recorder)
    finally:
        recorder.close()


def _pass_all(agent: subprocess.Popen[bytes], recorder: RecorderProcess) -> int:
    assert agent.stdin is not None
    assert agent.stdout is not None
    sys.setswitchinterval(_SWITCH_S)
    _pass_signals(agent)
    to_agent = _Pass(_STDIN, agent.stdin.fileno(), recorder, "to_agent")
    to_client = _Pass(agent.stdout.fileno(), _STDOUT, recorder, "to_client")
    # A daemon: it may wait for a client that stays connected after the agent has exited.
    reader = threading.Thread(target=_pass_input, args=(to_agent, agent.stdin.close), daemon=True)
    reader.start()
    to_client.run()
    if to_client.target_is_closed:
        agent.stdout.close()  # the agent gets the same error as without this process
    status = agent.wait()
    return status if status >= 0 else 128 - status


def _pass_input(to_agent: _Pass, close: Callable[[], None]) -> None:
    to_agent.run()
    with suppress(OSError):
        close()


def _pass_signals(agent: subprocess.Popen[bytes]) -> None:
    def stop(number: int, _frame: object) -> None:
        agent.send_signal(number)

    for name in ("SIGTERM", "SIGHUP"):
        if sys.platform != "win32":
            signal.signal(getattr(signal, name), stop)
    if sys.platform != "win32":
        # At a terminal the agent receives it, too, and decides what it does.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Pass:
    """One direction."""

    def __init__(
        self, source: int, target: int, recorder: RecorderProcess, direction: Direction
    ) -> None:
        self.target_is_closed: bool = False
        self._source = source
        self._target = target
        self._recorder = recorder
        self._direction: Direction = direction

    def run(self) -> None:
        """Pass everything on, until the end of the source or of the target."""
        while data := self._read():
            self._recorder.data(self._direction, data)
            if not self._write(data):
                break
        self._recorder.end(self._direction)

    def _read(self) -> bytes:
        try:
            return os.read(self._source, READ_BYTES)
        except OSError:
            return b""

    def _write(self, data: bytes) -> bool:
        try:
            written = os.write(self._target, data)
            while written < len(data):
                data = data[written:]
                written = os.write(self._target, data)
        except OSError:
            self.target_is_closed = True
            return False
        return True
