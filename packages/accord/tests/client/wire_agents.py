"""Accord's client and a wire-level agent, in either version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import ClientSession, ConnectedAgent, connect, v1, v2
from accord.roles import serve
from accord.transports.memory import pair
from raw_peer import QUICK, RawPeer
from versions import only

__all__ = (
    "BOTH",
    "ByHand",
    "Script",
    "Speaker",
    "agent_by_hand",
    "opened",
    "scripted",
    "session_with",
    "update",
)

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


class Speaker:
    """The client, as seen by a scripted turn of either version."""

    def __init__(self, version: int, session_id: str, context: Any) -> None:
        self.version = version
        self.types: Any = v1 if version == 1 else v2
        self.client = context.client
        self.session_id = session_id

    async def show(self, update: Any) -> None:
        notification = v1.SessionNotification if self.version == 1 else v2.UpdateSessionNotification
        await self.client.session_update(notification(session_id=self.session_id, update=update))

    async def say(self, text: str, message_id: str = "m1") -> None:
        content = self.types.TextContent(text=text)
        await self.show(self.types.AgentMessageChunk(content=content, message_id=message_id))

    async def permission(self, *kinds: str, call: str = "call-1", **details: Any) -> str | None:
        """Request permission; return the kind of the chosen option, None if cancelled."""
        options = [
            self.types.PermissionOption(option_id=f"id of {kind}", name=kind, kind=kind)
            for kind in kinds
        ]
        shown: Any = self.types.ToolCallDetails(tool_call_id=call, **details)
        more: dict[str, Any] = {"tool_call": shown}
        if self.version == 2:
            more = {"title": "May I?", "subject": v2.ToolCallPermissionSubject(tool_call=shown)}
        request = self.types.RequestPermissionRequest(
            session_id=self.session_id, options=options, **more
        )
        outcome = (await self.client.request_permission(request)).outcome
        option_id = getattr(outcome, "option_id", None)
        return None if option_id is None else option_id.removeprefix("id of ")


Script = Callable[[Speaker], Awaitable[str | None]]


class _V1(v1.AgentRole):
    def __init__(self, script: Script) -> None:
        self.script = script

    def new_session(
        self, params: v1.NewSessionRequest, context: v1.AgentContext
    ) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session_id="s1")

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        stop: Any = await self.script(Speaker(1, params.session_id, context))
        return v1.PromptResponse(stop_reason=stop or "end_turn")


class _V2(v2.AgentRole):
    def __init__(self, script: Script) -> None:
        self.script = script
        self.tasks: set[asyncio.Task[None]] = set()

    def new_session(
        self, params: v2.NewSessionRequest, context: v2.AgentContext
    ) -> v2.NewSessionResponse:
        return v2.NewSessionResponse(session_id="s1")

    def list_sessions(self, params: Any, context: v2.AgentContext) -> v2.ListSessionsResponse:
        return v2.ListSessionsResponse(sessions=[])

    async def resume_session(
        self, params: Any, context: v2.AgentContext
    ) -> v2.ResumeSessionResponse:
        return v2.ResumeSessionResponse()

    def close_session(self, params: Any, context: v2.AgentContext) -> v2.CloseSessionResponse:
        return v2.CloseSessionResponse()

    def cancel(self, params: v2.CancelSessionNotification, context: v2.AgentContext) -> None:
        for task in self.tasks:
            task.cancel()

    async def prompt(self, params: v2.PromptRequest, context: v2.AgentContext) -> v2.PromptResponse:
        speaker = Speaker(2, params.session_id, context)
        await speaker.show(v2.UserMessage(message_id="u1", content=params.prompt))
        await speaker.show(v2.RunningStateUpdate())
        task = asyncio.create_task(self._run(speaker))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return v2.PromptResponse(message_id="u1")

    async def _run(self, speaker: Speaker) -> None:
        try:
            stop = await self.script(speaker) or "end_turn"
        except asyncio.CancelledError:
            stop = "cancelled"
        except Exception as exc:
            error = v2.Error(code=-32603, message=repr(exc))
            await speaker.show(v2.IdleStateUpdate(stop_reason="error", error=error))
            raise
        await speaker.show(v2.IdleStateUpdate(stop_reason=stop))


def scripted(version: int, script: Script) -> v1.AgentRole | v2.AgentRole:
    """Return an agent whose turns run this function."""
    return _V1(script) if version == 1 else _V2(script)


@asynccontextmanager
async def session_with(
    version: int, script: Script, **options: Any
) -> AsyncGenerator[ClientSession, None]:
    """Open a session with an agent whose turns run this function."""
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(serve(there, scripted(version, script), limits=QUICK))
        async with connect(here, limits=QUICK, versions=only(version), **options) as connected:
            yield await connected.new_session("/work")


class ByHand(RawPeer):
    """An agent whose messages the test sends, except the response to `initialize`."""

    initialize: Any  # the request


async def opened(agent: ConnectedAgent, raw: RawPeer, cwd: str = "/") -> ClientSession:
    """Open the session s1."""
    opening = asyncio.create_task(agent.new_session(cwd))
    raw.answer((await raw.get())["id"], {"sessionId": "s1"})
    return await opening


def update(session_id: str, /, **fields: Any) -> tuple[str, Any]:
    """Return the method and the params of a session update."""
    return "session/update", {"sessionId": session_id, "update": fields}


@asynccontextmanager
async def agent_by_hand(
    version: int, *, initialize: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[tuple[ConnectedAgent, ByHand], None]:
    """Connect to an agent whose messages the test sends."""
    here, there = pair()
    raw = ByHand(there)
    await there.start(raw)

    async def answer_initialize() -> None:
        request = raw.initialize = await raw.get()
        info = {"name": "raw", "version": "1"}
        result: dict[str, Any] = {"protocolVersion": 1, "agentInfo": info}
        if version == 2:
            result = {
                "protocolVersion": 2,
                "info": info,
                "capabilities": {"session": {}},
            }
        raw.answer(request["id"], result | (initialize or {}))

    options = {"versions": (version,), "limits": QUICK} | options
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(answer_initialize())
        async with connect(here, **options) as connected:
            yield connected, raw
    await there.aclose()
