"""Logs in with a terminal auth method: runs the agent's own login command."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from accord.errors import AccordError
from accord_terminal.toolkit.safe_text import one_line

if TYPE_CHECKING:
    from accord.client.agent_adapter import AuthMethod


INTERRUPTED = 130  # the status of programs that handle Ctrl-C


class TerminalLoginChosen(AccordError):
    """The user chose an auth method that runs the agent's program at the terminal."""

    def __init__(self, method: AuthMethod) -> None:
        super().__init__(f"The login {method.name!r} runs at the terminal")
        self.method = method


def login_failure(method: AuthMethod, status: int) -> str:
    """Return why a login at the terminal failed (R-AUTH-17)."""
    name = one_line(method.name, 60)
    if status < 0 or status == INTERRUPTED:
        return f"The login {name!r} was interrupted"
    return f"The login {name!r} at the terminal ended with status {status}"


async def run_terminal_login(
    command: Sequence[str], env: Mapping[str, str | None], method: AuthMethod
) -> int:
    """Run the agent's command with the arguments of the method; return its status (R-AUTH-15).

    The command has the terminal until it exits; Ctrl-C is only for the command. Cancelling this
    call terminates it.
    """
    base = {**os.environ, **env, **dict(method.env)}
    with without_interrupts():
        process = await asyncio.create_subprocess_exec(
            *command,
            *method.args,
            env={name: value for name, value in base.items() if value is not None},
        )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


@contextmanager
def without_interrupts() -> Generator[None]:
    """Ignore the keys that interrupt the command; a command that is started still gets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, *((signal.SIGQUIT,) if sys.platform != "win32" else ()))
    # Functions, unlike SIG_IGN, are not inherited.
    before = {number: signal.signal(number, _ignore) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(_number: int, _frame: object) -> None:
    """Take no note of a signal."""
