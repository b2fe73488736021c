"""The agent of the benchmarks on a bare asyncio and msgspec loop."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

from floor import types as t
from floor.connection import Connection, connect
from workload import (
    CHUNKS_PER_TURN,
    DIFF_BYTES,
    FILE_BYTES,
    chunk_text,
    source_text,
    spread,
)

OLD_TEXT = source_text(DIFF_BYTES)
NEW_TEXT = OLD_TEXT.upper()


class Agent:
    """Does what the first text of a prompt says."""

    client: Connection

    def __init__(self) -> None:
        self.sessions = 0

    async def initialize(self, params: t.InitializeRequest) -> t.InitializeResponse:
        return t.InitializeResponse(
            1, t.AgentCapabilities(), agent_info=t.Implementation("bench", "1")
        )

    async def new_session(self, params: t.NewSessionRequest) -> t.NewSessionResponse:
        self.sessions += 1
        return t.NewSessionResponse(f"s{self.sessions}")

    async def prompt(self, params: t.PromptRequest) -> t.PromptResponse:
        command = json.loads(params.prompt[0].text)
        await getattr(self, command["do"])(params.session_id, command)
        return t.PromptResponse("end_turn")

    async def update(self, session_id: str, update: t.Update) -> None:
        await self.client.notify("session/update", t.SessionNotification(session_id, update))

    async def say(self, session_id: str, text: str) -> None:
        await self.update(session_id, t.AgentMessageChunk(t.TextContent(text)))

    async def nothing(self, session_id: str, command: dict[str, Any]) -> None:
        pass

    async def stream(self, session_id: str, command: dict[str, Any]) -> None:
        polite = command.get("polite")
        for number in range(command["n"]):
            await self.client.notify(
                "session/update",
                t.SessionNotification(
                    session_id, t.AgentMessageChunk(t.TextContent(chunk_text(number)))
                ),
            )
            if polite:
                await asyncio.sleep(0)

    async def read(self, session_id: str, command: dict[str, Any]) -> None:
        times = []
        path = f"/x/{command['size']}"
        for _ in range(command["n"]):
            start = time.perf_counter_ns()
            await self.client.request("fs/read_text_file", t.ReadRequest(session_id, path))
            times.append(time.perf_counter_ns() - start)
        await self.say(session_id, "RESULT " + json.dumps(spread(times)))

    async def write(self, session_id: str, command: dict[str, Any]) -> None:
        text = source_text(command["size"])
        await self.client.request("fs/write_text_file", t.WriteRequest(session_id, "/x/big", text))

    async def turn(self, session_id: str, command: dict[str, Any]) -> None:
        request = self.client.request
        await self.update(
            session_id,
            t.Plan(
                [
                    t.PlanEntry(f"Step {i}: do the thing and check it", "high", "pending")
                    for i in range(5)
                ]
            ),
        )
        await self.update(
            session_id,
            t.ToolCall(
                "call_1",
                "Editing src/main.py",
                "edit",
                "pending",
                locations=[t.Location("/w/src/main.py", 10)],
                raw_input={"path": "/w/src/main.py", "mode": "patch"},
            ),
        )
        answer = await request(
            "session/request_permission",
            t.PermissionRequest(
                session_id,
                t.ToolCallDetails("call_1", "Editing src/main.py", "edit"),
                [
                    t.PermissionOption("allow", "Allow", "allow_once"),
                    t.PermissionOption("reject", "Reject", "reject_once"),
                ],
            ),
        )
        assert type(answer.outcome) is t.Selected
        await self.update(session_id, t.ToolCallUpdate("call_1", status="in_progress"))
        file = await request("fs/read_text_file", t.ReadRequest(session_id, f"/x/{FILE_BYTES}"))
        assert len(file.content) == FILE_BYTES
        await self.update(
            session_id,
            t.ToolCallUpdate("call_1", content=[t.Diff("/w/src/main.py", NEW_TEXT, OLD_TEXT)]),
        )
        await request("fs/write_text_file", t.WriteRequest(session_id, "/w/src/main.py", NEW_TEXT))
        terminal = await request(
            "terminal/create",
            t.CreateTerminalRequest(session_id, "pytest", ["-q", "tests"], cwd="/w"),
        )
        params = t.TerminalRequest(session_id, terminal.terminal_id)
        await request("terminal/output", params)
        await request("terminal/wait_for_exit", params)
        await request("terminal/release", params)
        for number in range(CHUNKS_PER_TURN):
            await self.say(session_id, chunk_text(number))
        await self.update(
            session_id,
            t.ToolCallUpdate(
                "call_1", status="completed", content=[t.Content(t.TextContent("done"))]
            ),
        )


async def main() -> None:
    agent = Agent()
    handlers = {
        "initialize": agent.initialize,
        "session/new": agent.new_session,
        "session/prompt": agent.prompt,
    }
    agent.client = await connect(handlers, os.fdopen(0, "rb", 0), os.fdopen(1, "wb", 0))
    await agent.client.closed


asyncio.run(main())
