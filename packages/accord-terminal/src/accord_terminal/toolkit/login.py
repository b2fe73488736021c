"""Logs in to an agent with an auth method that the user chooses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from accord.client.elicitation import ElicitationForm, FormField, FormValues
from accord.errors import AuthRequired
from accord.types.session import OptionChoice
from accord_terminal.toolkit.terminal_login import TerminalLoginChosen

if TYPE_CHECKING:
    from accord.client.agent_adapter import AuthMethod
    from accord.client.connect import ConnectedAgent


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
    choices = tuple(OptionChoice(m.id, m.name, m.description) for m in methods)
    field = FormField(
        name=METHOD, kind="choice", title="Log in with", required=True, choices=choices
    )
    return ElicitationForm(message=message, fields=(field,))
