"""Logs in to an agent with an auth method that the user chooses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from accord.cli.ask.terminal_login import TerminalLoginChosen
from accord.client.elicitation import ElicitationForm, FormField, FormValues
from accord.errors import AuthRequired
from accord.types.session import OptionChoice

if TYPE_CHECKING:
    from accord.client.agent_adapter import AuthMethod
    from accord.client.connect import ConnectedAgent

__all__ = ("log_in",)

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
    methods = {method.id: method for method in agent.auth_methods}
    if not methods:
        raise refused
    values = await ask_form(_method_form(tuple(methods.values()), refused.message))
    chosen = None if values is None else methods.get(str(values.get(METHOD)))
    if chosen is None:
        raise refused
    if chosen.terminal:
        raise TerminalLoginChosen(chosen)
    await agent.authenticate(chosen.id)


def _method_form(methods: tuple[AuthMethod, ...], message: str) -> ElicitationForm:
    choices = tuple(OptionChoice(m.id, m.name, m.description) for m in methods)
    field = FormField(
        name=METHOD, kind="choice", title="Log in with", required=True, choices=choices
    )
    return ElicitationForm(message=message, fields=(field,))
