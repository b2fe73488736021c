"""The agent of the benchmarks on Accord."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from workload import (
    CHUNKS_PER_TURN,
    DIFF_BYTES,
    FILE_BYTES,
    Barrier,
    chunk_text,
    source_text,
    spread,
)

from accord import v1

OLD_TEXT = source_text(DIFF_BYTES)
NEW_TEXT = OLD_TEXT.upper()
together = Barrier()


class Bench(v1.AgentRole):
    """Does what the first text of a prompt says."""

    def __init__(self) -> None:
        self.sessions = 0

    def new_session(
        self, params: v1.NewSessionRequest, context: v1.AgentContext
    ) -> v1.NewSessionResponse:
        self.sessions += 1
        return v1.NewSessionResponse(session_id=f"s{self.sessions}")

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        first = params.prompt[0]
        assert isinstance(first, v1.TextContent)
        command = json.loads(first.text)
        await getattr(self, command["do"])(context.client, params.session_id, command)
        return v1.PromptResponse(stop_reason="end_turn")

    async def nothing(self, client: Any, session_id: str, command: dict[str, Any]) -> None:
        pass

    async def stream(self, client: Any, session_id: str, command: dict[str, Any]) -> None:
        polite = command.get("polite")
        if "together" in command:
            await together.wait(command["together"])
        for number in range(command["n"]):
            await client.session_update(
                v1.SessionNotification(
                    session_id=session_id,
                    update=v1.AgentMessageChunk(content=v1.TextContent(text=chunk_text(number))),
                )
            )
            if polite:
                await asyncio.sleep(0)

    async def read(self, client: Any, session_id: str, command: dict[str, Any]) -> None:
        times = []
        path = f"/x/{command['size']}"
        for _ in range(command["n"]):
            start = time.perf_counter_ns()
            await client.read_text_file(v1.ReadTextFileRequest(session_id=session_id, path=path))
            times.append(time.perf_counter_ns() - start)
        await client.session_update(
            v1.SessionNotification(
                session_id=session_id,
                update=v1.AgentMessageChunk(
                    content=v1.TextContent(text="RESULT " + json.dumps(spread(times)))
                ),
            )
        )

    async def write(self, client: Any, session_id: str, command: dict[str, Any]) -> None:
        text = source_text(command["size"])
        await client.write_text_file(
            v1.WriteTextFileRequest(session_id=session_id, path="/x/big", content=text)
        )

    async def turn(self, client: Any, session_id: str, command: dict[str, Any]) -> None:
        async def update(update: v1.SessionUpdate) -> None:
            await client.session_update(
                v1.SessionNotification(session_id=session_id, update=update)
            )

        await update(
            v1.Plan(
                entries=[
                    v1.PlanEntry(
                        content=f"Step {i}: do the thing and check it",
                        priority="high",
                        status="pending",
                    )
                    for i in range(5)
                ]
            )
        )
        await update(
            v1.ToolCall(
                tool_call_id="call_1",
                title="Editing src/main.py",
                kind="edit",
                status="pending",
                locations=[v1.ToolCallLocation(path="/w/src/main.py", line=10)],
                raw_input={"path": "/w/src/main.py", "mode": "patch"},
            )
        )
        answer = await client.request_permission(
            v1.RequestPermissionRequest(
                session_id=session_id,
                tool_call=v1.ToolCallDetails(
                    tool_call_id="call_1", title="Editing src/main.py", kind="edit"
                ),
                options=[
                    v1.PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
                    v1.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
                ],
            )
        )
        assert isinstance(answer.outcome, v1.SelectedPermissionOutcome)
        await update(v1.ToolCallUpdate(tool_call_id="call_1", status="in_progress"))
        file = await client.read_text_file(
            v1.ReadTextFileRequest(session_id=session_id, path=f"/x/{FILE_BYTES}")
        )
        assert len(file.content) == FILE_BYTES
        diff = v1.Diff(path="/w/src/main.py", new_text=NEW_TEXT, old_text=OLD_TEXT)
        await update(v1.ToolCallUpdate(tool_call_id="call_1", content=[diff]))
        await client.write_text_file(
            v1.WriteTextFileRequest(session_id=session_id, path="/w/src/main.py", content=NEW_TEXT)
        )
        terminal = await client.create_terminal(
            v1.CreateTerminalRequest(
                session_id=session_id, command="pytest", args=["-q", "tests"], cwd="/w"
            )
        )
        ids = {"session_id": session_id, "terminal_id": terminal.terminal_id}
        await client.terminal_output(v1.TerminalOutputRequest(**ids))
        await client.wait_for_terminal_exit(v1.WaitForTerminalExitRequest(**ids))
        await client.release_terminal(v1.ReleaseTerminalRequest(**ids))
        for number in range(CHUNKS_PER_TURN):
            await update(v1.AgentMessageChunk(content=v1.TextContent(text=chunk_text(number))))
        await update(
            v1.ToolCallUpdate(
                tool_call_id="call_1",
                status="completed",
                content=[v1.Content(content=v1.TextContent(text="done"))],
            )
        )


if __name__ == "__main__":
    v1.run(Bench())
