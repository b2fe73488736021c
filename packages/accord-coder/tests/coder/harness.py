"""The coding agent behind real pipes, and Accord's client connected to it, in either version.

    async def test_…(tmp_path: Path) -> None:
        async with scripted(tmp_path) as harness:
            result = await harness.use("read", path="notes.txt")   # the result for the model
            assert harness.call.status == "completed"              # the tool call of the client

`coder_session` is for other models. Without `model` the coder selects one as for users (the
demonstration model if no key is set): `await harness.prompt("read README.md")` returns the text of
the answer. The coder itself asks for the version only when it compacts: `BOTH` is for tests of what
a client gets to see.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import (
    ClientSession,
    PermissionDecided,
    PermissionRequest,
    SessionStore,
    ToolCall,
    connect,
)
from accord.transports.stdio import PipeTransport
from accord_coder.agent import Coder
from accord_coder.models.base import Model, ToolResult
from accord_coder.session import CoderSession
from accord_coder.settings import Settings
from coder.scripted_model import ScriptedModel, tool_prompt
from raw_peer import QUICK
from versions import only

__all__ = ("BOTH", "CoderHarness", "coder_session", "scripted")

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])

# The user's answer in a test: the same for every request, or a function of the request.
Allow = str | Callable[[PermissionRequest], Any]
_LONGEST_S = 60.0


class CoderHarness:
    """A session of a coder from its client's side, with access to `coder` and its state."""

    def __init__(
        self, agent: Any, session: ClientSession, coder: Coder, model: Model | None
    ) -> None:
        self.agent = agent  # a ConnectedAgent
        self.session = session
        self.coder = coder
        self.model = model
        self.asked: list[PermissionRequest] = []  # the permission requests, in order
        self.events: list[Any] = []  # of all turns
        self.stop_reason: str | None = None  # of the last turn

    # Actions of the client.

    async def prompt(self, *content: Any) -> str:
        """Send a prompt, wait for the end of its turn, and return the agent's text."""
        async with self.session.prompt(*content) as turn:
            async for event in turn:
                self.events.append(event)
        self.stop_reason = turn.stop_reason
        return turn.text

    async def use(self, name: str, **arguments: Any) -> ToolResult:
        """Let `ScriptedModel` use one tool; return the result that it received."""
        (result,) = await self.uses((name, arguments))
        return result

    async def uses(self, *uses: tuple[str, dict[str, Any] | str]) -> tuple[ToolResult, ...]:
        """Let `ScriptedModel` use several tools in one response; return the results."""
        assert isinstance(self.model, ScriptedModel)
        await self.prompt(tool_prompt(uses))
        return self.model.results

    @asynccontextmanager
    async def using(self, name: str, **arguments: Any) -> AsyncGenerator[Any, None]:
        """Start a turn in which `ScriptedModel` uses a tool; yield the turn, for example to cancel
        it.
        """
        async with self.session.prompt(tool_prompt([(name, arguments)])) as turn:
            yield turn
        self.stop_reason = turn.stop_reason

    # What the client received.

    @property
    def state(self) -> CoderSession:
        """The coder's state of this session."""
        return self.coder.sessions[self.session.id].data["state"]

    @property
    def calls(self) -> list[ToolCall]:
        """All tool calls in their current state."""
        return self.session.transcript.tool_calls

    @property
    def call(self) -> ToolCall:
        """The last tool call."""
        return self.calls[-1]

    @property
    def permissions(self) -> list[PermissionDecided]:
        """The permission requests with their answers, of turns that `prompt` ran."""
        return [event for event in self.events if isinstance(event, PermissionDecided)]


@asynccontextmanager
async def coder_session(
    version: int = 2,
    *,
    cwd: Path | str,
    roots: Sequence[Path | str] = (),
    settings: Settings | None = None,
    model: Model | None = None,
    allow: Allow = "allow",
    store: SessionStore | None = None,
    coder: Coder | None = None,
    load: str | None = None,
    mcp_servers: Sequence[Any] = (),
    tools: Sequence[Any] = (),
    **client: Any,
) -> AsyncGenerator[CoderHarness, None]:
    """Start a coder, connect to it and open a session, or load the session with the id `load`.

    `client` is passed to `accord.connect`: files, terminals, on_elicit_form and so on. Pass `coder`
    to connect again to a running coder.
    """
    if coder is None:
        coder = Coder(settings or Settings(), store, model=model)
    (from_here, to_there), (from_there, to_here) = os.pipe(), os.pipe()
    asked: list[PermissionRequest] = []

    def decide(request: PermissionRequest) -> Any:
        asked.append(request)
        return allow(request) if callable(allow) else allow

    here, there = PipeTransport(from_there, to_there), PipeTransport(from_here, to_here)
    serving = asyncio.ensure_future(accord.serve(coder, there, limits=QUICK))
    try:
        async with (
            asyncio.timeout(_LONGEST_S),
            connect(
                here, limits=QUICK, versions=only(version), permissions=decide, **client
            ) as agent,
        ):
            given: dict[str, Any] = {"additional_directories": roots, "mcp_servers": mcp_servers}
            given |= {"tools": tools} if tools else {}
            if load is None:
                session = await agent.new_session(cwd, **given)
            else:
                session = await agent.load_session(load, cwd, **given)
            harness = CoderHarness(agent, session, coder, model)
            harness.asked = asked
            yield harness
    finally:
        await serving


def scripted(
    cwd: Path | str, version: int = 2, **given: Any
) -> AbstractAsyncContextManager[CoderHarness]:
    """Return `coder_session` with a `ScriptedModel`."""
    return coder_session(version, cwd=cwd, model=ScriptedModel(), **given)
