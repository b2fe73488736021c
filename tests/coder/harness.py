"""The coding agent behind real pipes, and a client of Accord that talks to it, in either version.

    @BOTH
    async def test_…(version: int, tmp_path: Path) -> None:
        async with coder_session(version, cwd=tmp_path, model=ScriptedModel()) as talk:
            result = await talk.use("read", path="notes.txt")   # what the model was told
            assert talk.call.status == "completed"              # what the client was shown

Without `model` the coder chooses as it does for users (the demonstration model if no key is set):
`await talk.prompt("read README.md")` returns the text of the answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
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
from accord.transports.pipes import PipeTransport
from accord_coder.agent import Coder
from accord_coder.loop.coder_session import CoderSession
from accord_coder.loop.messages import ToolResult
from accord_coder.models.base import Model
from accord_coder.settings import Settings
from coder.scripted_model import ScriptedModel, tool_prompt
from sides import QUICK
from versions import only

__all__ = ("BOTH", "CoderHarness", "coder_session")

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])

# What a test answers when it is asked: the same to everything, or by the request.
Allow = str | Callable[[PermissionRequest], Any]
_LONGEST_S = 60.0


class CoderHarness:
    """A session of a coder, as its client has it; `coder` and `work` are behind the pipe."""

    def __init__(
        self, agent: Any, session: ClientSession, coder: Coder, model: Model | None
    ) -> None:
        self.agent = agent  # a ConnectedAgent
        self.session = session
        self.coder = coder
        self.model = model
        self.asked: list[PermissionRequest] = []  # what the user was asked, in order
        self.events: list[Any] = []  # of all turns
        self.stop_reason: str | None = None  # of the last turn

    # What it does.

    async def prompt(self, *content: Any) -> str:
        """Send a prompt, wait for the end of its turn, return what the agent said in it."""
        async with self.session.prompt(*content) as turn:
            async for event in turn:
                self.events.append(event)
        self.stop_reason = turn.stop_reason
        return turn.text

    async def use(self, name: str, **arguments: Any) -> ToolResult:
        """Have `ScriptedModel` use one tool; return what it was told of that."""
        (result,) = await self.uses((name, arguments))
        return result

    async def uses(self, *uses: tuple[str, dict[str, Any] | str]) -> tuple[ToolResult, ...]:
        """Have `ScriptedModel` use several tools in one answer."""
        assert isinstance(self.model, ScriptedModel)
        await self.prompt(tool_prompt(uses))
        return self.model.results

    @asynccontextmanager
    async def using(self, name: str, **arguments: Any) -> AsyncGenerator[Any, None]:
        """Begin a turn in which `ScriptedModel` uses a tool; give the turn, to be cancelled say."""
        async with self.session.prompt(tool_prompt([(name, arguments)])) as turn:
            yield turn
        self.stop_reason = turn.stop_reason

    # What it has heard.

    @property
    def state(self) -> CoderSession:
        """What the coder has of this session."""
        return self.coder.sessions[self.session.id].data["state"]

    @property
    def calls(self) -> list[ToolCall]:
        """All tool calls, as they stand now."""
        return self.session.transcript.tool_calls

    @property
    def call(self) -> ToolCall:
        """The last tool call."""
        return self.calls[-1]

    @property
    def permissions(self) -> list[PermissionDecided]:
        """The questions that were answered, with their answers, of turns that `prompt` ran."""
        return [event for event in self.events if isinstance(event, PermissionDecided)]


@asynccontextmanager
async def coder_session(
    version: int,
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
    **client: Any,
) -> AsyncGenerator[CoderHarness, None]:
    """Start a coder, connect to it and open a session, or load the one with the id `load`.

    `client` goes to `accord.connect`: files, terminals, on_elicit_form and so on. Give `coder` to
    connect once more to one that runs already.
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
            if load is None:
                session = await agent.new_session(cwd, **given)
            else:
                session = await agent.load_session(load, cwd, **given)
            talk = CoderHarness(agent, session, coder, model)
            talk.asked = asked
            yield talk
    finally:
        await serving
