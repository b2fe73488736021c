"""Logs in to an agent at the terminal, by the methods that the agent offers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from accord.errors import AccordError, AuthRequired

if TYPE_CHECKING:
    from accord.client.agent_adapter import AuthMethod
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import ElicitationForm, FormValues

__all__ = ("TerminalLoginChosen", "log_in", "run_terminal_login")

METHOD = "method"


class TerminalLoginChosen(AccordError):
    """The user chose a method that runs the agent's own program at the terminal."""

    def __init__(self, method: AuthMethod) -> None:
        super().__init__(f"The login {method.name!r} runs at the terminal")
        self.method = method


async def log_in(
    agent: ConnectedAgent,
    refused: AuthRequired,
    fill_in: Callable[[ElicitationForm], Awaitable[FormValues | None]],
) -> None:
    """Let the user choose a method, and log in by it (R-AUTH-12).

    Raises `TerminalLoginChosen` for a terminal method, which needs its own process and then a new
    connection (R-AUTH-18), and `refused` when there is no method or the user declines.
    """
    methods = {method.id: method for method in agent.auth_methods}
    if not methods:
        raise refused
    values = await fill_in(_method_form(tuple(methods.values()), refused.message))
    chosen = None if values is None else methods.get(str(values.get(METHOD)))
    if chosen is None:
        raise refused
    if chosen.terminal:
        raise TerminalLoginChosen(chosen)
    await agent.authenticate(chosen.id)


def _method_form(methods: tuple[AuthMethod, ...], message: str) -> ElicitationForm:
    from accord.client.elicitation import ElicitationForm, FormField
    from accord.types.session import OptionChoice

    choices = tuple(OptionChoice(m.id, m.name, m.description) for m in methods)
    field = FormField(
        name=METHOD, kind="choice", title="Log in with", required=True, choices=choices
    )
    return ElicitationForm(message=message, fields=(field,))


async def run_terminal_login(
    command: Sequence[str], env: Mapping[str, str | None], method: AuthMethod
) -> int:
    """Run the agent's own command with what the method adds; return its exit status (R-AUTH-15).

    The terminal is the program's while it runs. Cancelling this ends the program.
    """
    base = {**os.environ, **env, **dict(method.env)}
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
