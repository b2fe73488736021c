"""The agent of the benchmarks on PyPI `agent-client-protocol`, written as its examples are."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from acp import PROTOCOL_VERSION, Agent, run_agent
from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    AgentPlanUpdate,
    ContentToolCallContent,
    FileEditToolCallContent,
    Implementation,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PlanEntry,
    PromptResponse,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)
from workload import (
    CHUNKS_PER_TURN,
    DIFF_BYTES,
    FILE_BYTES,
    Barrier,
    chunk_text,
    source_text,
    spread,
)

OLD_TEXT = source_text(DIFF_BYTES)
NEW_TEXT = OLD_TEXT.upper()
together = Barrier()


def chunk(text: str) -> AgentMessageChunk:
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=TextContentBlock(type="text", text=text)
    )


def progress(**fields: Any) -> ToolCallProgress:
    return ToolCallProgress(session_update="tool_call_update", tool_call_id="call_1", **fields)


class BenchAgent(Agent):
    """Does what the first text of a prompt says."""

    def __init__(self) -> None:
        self.sessions = 0

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kw):
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(),
            agent_info=Implementation(name="bench", version="1"),
        )

    async def new_session(self, cwd, additional_directories=None, mcp_servers=None, **kw):
        self.sessions += 1
        return NewSessionResponse(session_id=f"s{self.sessions}")

    async def prompt(self, session_id, prompt, **kw):
        command = json.loads(prompt[0].text)
        await getattr(self, command["do"])(session_id, command)
        return PromptResponse(stop_reason="end_turn")

    async def nothing(self, session_id: str, command: dict[str, Any]) -> None:
        pass

    async def stream(self, session_id: str, command: dict[str, Any]) -> None:
        polite = command.get("polite")
        if "together" in command:
            await together.wait(command["together"])
        for number in range(command["n"]):
            await self.client.session_update(session_id, chunk(chunk_text(number)))
            if polite:
                await asyncio.sleep(0)

    async def read(self, session_id: str, command: dict[str, Any]) -> None:
        times = []
        path = f"/x/{command['size']}"
        for _ in range(command["n"]):
            start = time.perf_counter_ns()
            await self.client.read_text_file(session_id=session_id, path=path)
            times.append(time.perf_counter_ns() - start)
        await self.client.session_update(session_id, chunk("RESULT " + json.dumps(spread(times))))

    async def write(self, session_id: str, command: dict[str, Any]) -> None:
        text = source_text(command["size"])
        await self.client.write_text_file(session_id=session_id, path="/x/big", content=text)

    async def turn(self, session_id: str, command: dict[str, Any]) -> None:
        client = self.client
        await client.session_update(
            session_id,
            AgentPlanUpdate(
                session_update="plan",
                entries=[
                    PlanEntry(
                        content=f"Step {i}: do the thing and check it",
                        priority="high",
                        status="pending",
                    )
                    for i in range(5)
                ],
            ),
        )
        await client.session_update(
            session_id,
            ToolCallStart(
                session_update="tool_call",
                tool_call_id="call_1",
                title="Editing src/main.py",
                kind="edit",
                status="pending",
                locations=[ToolCallLocation(path="/w/src/main.py", line=10)],
                raw_input={"path": "/w/src/main.py", "mode": "patch"},
            ),
        )
        answer = await client.request_permission(
            session_id=session_id,
            tool_call=ToolCallUpdate(
                tool_call_id="call_1", title="Editing src/main.py", kind="edit"
            ),
            options=[
                PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
                PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
            ],
        )
        assert answer.outcome.outcome == "selected"
        await client.session_update(session_id, progress(status="in_progress"))
        file = await client.read_text_file(session_id=session_id, path=f"/x/{FILE_BYTES}")
        assert len(file.content) == FILE_BYTES
        diff = FileEditToolCallContent(
            type="diff", path="/w/src/main.py", new_text=NEW_TEXT, old_text=OLD_TEXT
        )
        await client.session_update(session_id, progress(content=[diff]))
        await client.write_text_file(session_id=session_id, path="/w/src/main.py", content=NEW_TEXT)
        terminal = await client.create_terminal(
            session_id=session_id, command="pytest", args=["-q", "tests"], cwd="/w"
        )
        ids = {"session_id": session_id, "terminal_id": terminal.terminal_id}
        await client.terminal_output(**ids)
        await client.wait_for_terminal_exit(**ids)
        await client.release_terminal(**ids)
        for number in range(CHUNKS_PER_TURN):
            await client.session_update(session_id, chunk(chunk_text(number)))
        done = ContentToolCallContent(
            type="content", content=TextContentBlock(type="text", text="done")
        )
        await client.session_update(session_id, progress(status="completed", content=[done]))


if __name__ == "__main__":
    asyncio.run(run_agent(BenchAgent()))
