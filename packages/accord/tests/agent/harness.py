"""An `accord.Agent` and a wire-level client, in either version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

import accord
from accord import Agent, Turn, v1, v2
from accord.connection.limits import Limits
from accord.roles import connect
from accord.transports.memory import pair
from accord.wire.base import UNSET
from accord.wire.codec import to_builtins
from event_loop import Changing
from raw_peer import QUICK

__all__ = ("BOTH", "V1", "V2", "AgentHarness", "FunctionAgent", "connect_client")

V1, V2 = 1, 2
BOTH = pytest.mark.parametrize("version", [V1, V2], ids=["v1", "v2"])


class FunctionAgent(Agent):
    """Runs a given function in each turn."""

    def __init__(self, work: Callable[[Turn], Awaitable[Any]]) -> None:
        self.work = work

    async def prompt(self, turn: Turn) -> None:
        await self.work(turn)


class AgentHarness(Changing):
    """Acts as the client, and has what the client received."""

    def __init__(self, version: int, cwd: str) -> None:
        super().__init__()
        self.version = version
        self.cwd = cwd
        self.updates: list[Any] = []
        self.session_id = ""
        self.opened: Any = None  # The response that opened the session.
        self.allow: Callable[[Any], str | None] = lambda _request: "allow_once"
        self.asked: list[Any] = []
        self.files: dict[str, str] = {}
        self.remote: Any = None

    @property
    def types(self) -> Any:
        """The package of the version."""
        return v1 if self.version == V1 else v2

    # Actions of the client.

    async def open(self, **more: Any) -> Any:
        """Open a session."""
        params: dict[str, Any] = {"cwd": self.cwd} | more
        if self.version == V1:
            params = {"mcp_servers": []} | params
        self.opened = await self.remote.new_session(self.types.NewSessionRequest(**params))
        self.session_id = self.opened.session_id
        return self.opened

    def send(self, *content: Any) -> asyncio.Task[Any]:
        """Send a prompt and return its response."""
        blocks = [self.types.TextContent(text=c) if isinstance(c, str) else c for c in content]
        request = self.types.PromptRequest(session_id=self.session_id, prompt=blocks)
        return asyncio.ensure_future(self.remote.prompt(request))

    async def prompt(self, *content: Any) -> str | None:
        """Send a prompt and return the stop reason of its turn."""
        ended = len(self.ends())
        answer = await self.send(*content)
        if self.version == V1:
            return answer.stop_reason
        await self.until(lambda: len(self.ends()) > ended)
        return self.ends()[-1].stop_reason

    async def stopped(self, sent: asyncio.Task[Any], *, before: int = 0) -> str | None:
        """Return the stop reason of a prompt that was sent."""
        answer = await sent
        if self.version == V1:
            return answer.stop_reason
        await self.until(lambda: len(self.ends()) > before)
        return self.ends()[-1].stop_reason

    async def cancel(self) -> None:
        """Cancel the turn of the session."""
        cls = v1.CancelNotification if self.version == V1 else v2.CancelSessionNotification
        await self.remote.cancel(cls(session_id=self.session_id))

    async def set_option(self, option_id: str, value: str | bool) -> Any:
        """Choose a value of a config option."""
        fields: dict[str, Any] = {
            "session_id": self.session_id,
            "config_id": option_id,
            "value": value,
        }
        types = self.types
        switch = isinstance(value, bool)
        cls = types.SetSessionConfigOptionBoolean if switch else types.SetSessionConfigOptionId
        return await self.remote.set_session_config_option(cls(**fields))

    # What the client received.

    def heard(self, update: Any) -> None:
        self.updates.append(update)
        self.changed.set()

    def of(self, *names: str) -> list[Any]:
        """Return the updates of these classes."""
        return [update for update in self.updates if type(update).__name__ in names]

    def ends(self) -> list[Any]:
        """Return the turn ends that were sent as updates."""
        return self.of("IdleStateUpdate")

    def said(self, *, thought: bool = False) -> str:
        """Return the text of all agent messages."""
        name = "AgentThoughtChunk" if thought else "AgentMessageChunk"
        return "".join(update.content.text for update in self.of(name))

    def message_ids(self, name: str = "AgentMessageChunk") -> list[str]:
        return [update.message_id for update in self.of(name)]

    def tool(self, tool_id: str | None = None) -> dict[str, Any]:
        """Return the accumulated tool call, by default the last one."""
        calls: dict[str, dict[str, Any]] = {}
        for update in self.of("ToolCall", "ToolCallUpdate", "ToolCallContentChunk"):
            call = calls.setdefault(update.tool_call_id, {"content": []})
            if type(update).__name__ == "ToolCallContentChunk":
                call["content"] = [*call["content"], update.content]
                continue
            for name in update.__struct_fields__:
                value = getattr(update, name)
                if value is not UNSET and (value is not None or self.version == V2):
                    call[name] = value
        return calls[tool_id] if tool_id is not None else list(calls.values())[-1]

    def statuses(self) -> list[str]:
        """Return the statuses that tool calls went through."""
        found = [getattr(u, "status", None) for u in self.of("ToolCall", "ToolCallUpdate")]
        return [status for status in found if status not in (None, UNSET)]

    def options(self, answer: Any = None) -> list[dict[str, Any]]:
        """Return the config options of a response, by default of the opening one."""
        shown = (self.opened if answer is None else answer).config_options or []
        return [
            {
                "id": option.config_id if self.version == V2 else option.id,
                "value": option.current_value,
            }
            for option in shown
        ]

    def json(self, update: Any) -> Any:
        return to_builtins(update)


def _permission(harness: AgentHarness, params: Any) -> Any:
    harness.asked.append(params)
    harness.changed.set()
    types = harness.types
    chosen = harness.allow(params)
    outcome = (
        types.CancelledPermissionOutcome()
        if chosen is None
        else types.SelectedPermissionOutcome(option_id=chosen)
    )
    return types.RequestPermissionResponse(outcome=outcome)


class ClientV1(v1.ClientRole):
    def __init__(self, harness: AgentHarness) -> None:
        self.harness = harness

    def session_update(self, params: v1.SessionNotification, context: v1.ClientContext) -> None:
        self.harness.heard(params.update)

    async def request_permission(
        self, params: v1.RequestPermissionRequest, context: v1.ClientContext
    ) -> v1.RequestPermissionResponse:
        return _permission(self.harness, params)


class ClientV2(v2.ClientRole):
    def __init__(self, harness: AgentHarness) -> None:
        self.harness = harness

    def session_update(
        self, params: v2.UpdateSessionNotification, context: v2.ClientContext
    ) -> None:
        self.harness.heard(params.update)

    async def request_permission(
        self, params: v2.RequestPermissionRequest, context: v2.ClientContext
    ) -> v2.RequestPermissionResponse:
        return _permission(self.harness, params)


@asynccontextmanager
async def connect_client(
    agent: Agent,
    version: int,
    *,
    cwd: str = "/project",
    client: Callable[[AgentHarness], Any] | None = None,
    opened: bool = True,
    observers: Sequence[Any] = (),
    limits: Limits = QUICK,
) -> AsyncGenerator[AgentHarness, None]:
    """Connect a client of a version to an agent, by default with a session open."""
    here, there = pair()
    side = AgentHarness(version, cwd)
    make = client or (ClientV1 if version == V1 else ClientV2)
    serving = asyncio.ensure_future(accord.serve(agent, here, limits=limits, observers=observers))
    try:
        async with asyncio.timeout(30), connect(there, make(side), limits=QUICK) as remote:
            side.remote = remote
            if opened:
                await side.open()
            yield side
    finally:
        await serving


Version = Literal[1, 2]
