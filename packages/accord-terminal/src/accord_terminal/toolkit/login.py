"""Logs in to an agent with an auth method that the user chooses, also by its own command."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from accord.errors import AccordError, AuthRequired
from accord_terminal.toolkit.text import one_line

if TYPE_CHECKING:
    from accord.client.agent_adapter import AuthMethod
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import ElicitationForm, FormValues

# Logs in with a terminal auth method: runs the agent's own login command.

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


METHOD = "method"


async def log_in(
    agent: ConnectedAgent,
    refused: AuthRequired,
    ask_form: Callable[[ElicitationForm], Awaitable[FormValues | None]],
) -> None:
    """Ask the user to choose an auth method, and log in with it (R-AUTH-12).

    Raises `TerminalLoginChosen` for a terminal auth method, which needs its own process and then a
    new connection (R-AUTH-18). Raises `refused` if the agent has no auth methods or the user
    declines.
    """
    chosen = await choose_method(agent.auth_methods, refused, ask_form)
    if chosen.terminal:
        raise TerminalLoginChosen(chosen)
    await agent.authenticate(chosen.id)


async def choose_method(
    methods: Iterable[AuthMethod],
    refused: AuthRequired,
    ask_form: Callable[[ElicitationForm], Awaitable[FormValues | None]],
) -> AuthMethod:
    """Ask the user to choose an auth method; raise `refused` if there is none to choose."""
    by_id = {method.id: method for method in methods}
    if not by_id:
        raise refused
    values = await ask_form(_method_form(tuple(by_id.values()), refused.message))
    chosen = None if values is None else by_id.get(str(values.get(METHOD)))
    if chosen is None:
        raise refused
    return chosen


def _method_form(methods: tuple[AuthMethod, ...], message: str) -> ElicitationForm:
    from accord.client.elicitation import ElicitationForm, FormField
    from accord.types.session import OptionChoice

    choices = tuple(OptionChoice(m.id, m.name, m.description) for m in methods)
    field = FormField(
        name=METHOD, kind="choice", title="Log in with", required=True, choices=choices
    )
    return ElicitationForm(message=message, fields=(field,))
