"""Logs in to an agent that refuses something without a login; that is then tried again."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from accord.client.agent_adapter import AuthMethod
from accord.client.connect import ConnectedAgent
from accord.client.elicitation import ElicitationForm, FormValues
from accord.errors import AccordError, AuthRequired
from accord_chat.model.questions import LoginQuestion, Question
from accord_terminal.toolkit.login import choose_method, login_failure
from accord_terminal.toolkit.text import one_line

if TYPE_CHECKING:
    from accord_chat.agent_link import AgentLink
    from accord_chat.model.timeline import Timeline


class Visitor(Protocol):
    """The session that needs the login."""

    link: AgentLink
    timeline: Timeline

    @property
    def agent_name(self) -> str:
        """The name of the agent as the user knows it."""
        ...

    async def ask(self, question: Question) -> Any:
        """Ask the user."""
        ...

    def login_changed(self, name: str) -> None:
        """Take note which login the agent runs; none if the name is empty."""
        ...


class Login:
    """The logins of one session."""

    def __init__(
        self, session: Visitor, at_terminal: Callable[[AuthMethod], Awaitable[int]]
    ) -> None:
        self._session = session
        self._at_terminal = at_terminal  # runs the agent's login command, returns its status
        self._running: asyncio.Task[None] | None = None

    async def run(self, refused: AuthRequired) -> None:
        """Ask the user for a method and log in, unless another session has just done it.

        Raises `AccordError` or `OSError` if it fails, and `refused` if the user declines.
        """
        gate = self._session.link.login_gate
        before = gate.ended
        async with gate.lock:
            if gate.ended != before:
                if not gate.has_succeeded:
                    raise refused
                return
            gate.has_succeeded = False
            try:
                await self._log_in(refused)
                gate.has_succeeded = True
            finally:
                gate.ended += 1
        self._session.timeline.remark("Logged in", "info")

    def cancel(self) -> bool:
        """Cancel the login that the agent runs; return whether there was one."""
        if self._running is None:
            return False
        self._running.cancel()
        return True

    async def _log_in(self, refused: AuthRequired) -> None:
        link = self._session.link
        agent = await link.agent()
        variables = link.login_variables

        async def ask(form: ElicitationForm) -> FormValues | None:
            details = {method.id: self._detail(method) for method in agent.auth_methods}
            return await self._session.ask(LoginQuestion(self._session.agent_name, form, details))

        method = await choose_method(agent.auth_methods, refused, ask)
        if method.terminal:
            status = await self._at_terminal(method)
            if status != 0:  # R-AUTH-17: a login that fails is reported
                raise AccordError(login_failure(method, status))
            await link.aclose()  # R-AUTH-18: the agent is started again
        elif missing := self._missing(variables.get(method.id, ())):
            raise AccordError(
                f"The login {one_line(method.name, 60)!r} needs {' and '.join(missing)} in the "
                "environment: set it before `accord chat` starts, or in the agent's settings"
            )
        else:
            await self._authenticate(agent, method)

    async def _authenticate(self, agent: ConnectedAgent, method: AuthMethod) -> None:
        """Let the agent log in, until it has ended or the user cancels it."""
        running = asyncio.create_task(agent.authenticate(method.id), name="accord chat login")
        self._running = running
        self._session.login_changed(method.name)
        try:
            await asyncio.wait([running])
        finally:
            self._running = None
            running.cancel()
            self._session.login_changed("")
        if running.cancelled():
            raise AccordError(f"The login {one_line(method.name, 60)!r} was cancelled")
        await running

    def _missing(self, names: Sequence[str]) -> list[str]:
        env = {**os.environ, **self._session.link.source.setup.env}
        return [name for name in names if not env.get(name)]

    def _detail(self, method: AuthMethod) -> str:
        """Return what the choice of a method does."""
        source, names = self._session.link.source, self._session.link.login_variables
        if method.terminal and source.login_command is not None:
            return f"runs here: {shlex.join([*source.login_command, *method.args])}"
        if variables := names.get(method.id):
            missing = self._missing(variables)
            return f"needs {', '.join(variables)}: {'not set' if missing else 'set'}"
        return "the agent logs in by itself"
