"""v1 agent on the official Python SDK, 0.12 or 1.0; the turn is described in ../README.md."""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import unquote, urlsplit

import acp
from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    EnvVariable,
    Implementation,
    PermissionOption,
    PromptCapabilities,
    SessionInfoUpdate,
    SessionMode,
    SessionModeState,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
)

SENTENCE = 'Grüße 👋 "quoted" \\ back\u2028slash\n'


class Peer(acp.Agent):
    client: acp.Client

    def __init__(self, *, echoes_version: bool) -> None:
        self.cancelled = asyncio.Event()
        self.echoes_version = echoes_version

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        return acp.InitializeResponse(
            protocol_version=protocol_version if self.echoes_version else acp.PROTOCOL_VERSION,
            agent_info=Implementation(name="python", version="1"),
            agent_capabilities=AgentCapabilities(
                prompt_capabilities=PromptCapabilities(embedded_context=True)
            ),
        )

    async def new_session(
        self, cwd: str, mcp_servers: Any = None, **_: Any
    ) -> acp.NewSessionResponse:
        assert mcp_servers[0].env[0].value == "b"
        modes = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")]
        state = SessionModeState(current_mode_id="ask", available_modes=modes)
        return acp.NewSessionResponse(session_id="session-1", modes=state)

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> acp.SetSessionModeResponse:
        mode = CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode_id)
        await self.client.session_update(session_id, mode)
        return acp.SetSessionModeResponse()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method != "interop/echo":
            raise acp.RequestError.method_not_found(method)
        return params

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        self.cancelled.clear()
        match prompt[0].text:
            case "work":
                await self.work(session_id, unquote(urlsplit(prompt[1].uri).path))
                return acp.PromptResponse(stop_reason="end_turn")
            case "wait":
                await self.say(session_id, "waiting")
                await self.cancelled.wait()
                return acp.PromptResponse(stop_reason="cancelled")
            case "ask":
                outcome = await self.permission(session_id, "edit-2")
                await self.cancelled.wait()
                return acp.PromptResponse(
                    stop_reason="cancelled" if outcome == "cancelled" else "refusal"
                )
            case other:
                raise acp.RequestError.invalid_params({"prompt": other})

    async def say(self, session: str, text: str) -> None:
        content = TextContentBlock(type="text", text=text)
        await self.client.session_update(
            session, AgentMessageChunk(session_update="agent_message_chunk", content=content)
        )

    async def plan(self, session: str, first: str, second: str) -> None:
        entries = [
            {"content": "Edit the notes", "priority": "high", "status": first},
            {"content": "Run the tests", "priority": "low", "status": second},
        ]
        await self.client.session_update(
            session, AgentPlanUpdate.model_validate({"sessionUpdate": "plan", "entries": entries})
        )

    async def tool(
        self, session: str, model: type[ToolCallStart] | type[ToolCallProgress], **fields: Any
    ) -> None:
        tag = "tool_call" if model is ToolCallStart else "tool_call_update"
        await self.client.session_update(
            session, model.model_validate({"sessionUpdate": tag, **fields})
        )

    async def permission(self, session: str, tool_call: str) -> str:
        answer = await self.client.request_permission(
            session_id=session,
            tool_call=ToolCallUpdate(
                tool_call_id=tool_call, title="Edit notes.txt", kind="edit", status="pending"
            ),
            options=[
                PermissionOption(option_id="no", name="Reject", kind="reject_once"),
                PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
            ],
        )
        return getattr(answer.outcome, "option_id", answer.outcome.outcome)

    async def work(self, session: str, path: str) -> None:
        client, saw = self.client, dict[str, Any]()
        thought = TextContentBlock(type="text", text="Let me look.")
        await client.session_update(
            session, AgentThoughtChunk(session_update="agent_thought_chunk", content=thought)
        )
        await self.plan(session, "in_progress", "pending")
        test = {"name": "test", "description": "Run the tests", "input": {"hint": "which ones"}}
        commands = {"sessionUpdate": "available_commands_update", "availableCommands": [test]}
        await client.session_update(session, AvailableCommandsUpdate.model_validate(commands))
        raw = {"path": path, "nested": [1, None, {"deep": True}]}
        await self.tool(
            session, ToolCallStart, toolCallId="edit-1", title="Edit notes.txt", kind="edit",
            status="pending", locations=[{"path": path, "line": 2}], rawInput=raw,
        )  # fmt: skip
        saw["permission"] = await self.permission(session, "edit-1")
        await self.tool(session, ToolCallProgress, toolCallId="edit-1", status="in_progress")
        saw["read"] = (
            await client.read_text_file(session_id=session, path=path, line=2, limit=1)
        ).content
        before = (await client.read_text_file(session_id=session, path=path)).content
        after = before.replace(saw["read"], saw["read"].upper())
        await client.write_text_file(session_id=session, path=path, content=after)
        diff = {"type": "diff", "path": path, "oldText": before, "newText": after}
        await self.tool(
            session, ToolCallProgress, toolCallId="edit-1", status="completed", content=[diff]
        )
        await self.terminals(session, saw)
        await self.plan(session, "completed", "completed")
        title = SessionInfoUpdate(session_update="session_info_update", title="Edit the notes")
        await client.session_update(session, title)
        await client.session_update(
            session, UsageUpdate(session_update="usage_update", used=10, size=100)
        )
        try:
            saw["echo"] = (await client.ext_method("interop/echo", {"n": 2}))["n"]
        except acp.RequestError as error:
            saw["echo"] = error.code
        await self.say(session, SENTENCE)
        await self.say(session, json.dumps(saw))

    async def terminals(self, session: str, saw: dict[str, Any]) -> None:
        client = self.client
        env = [EnvVariable(name="CI", value="1")]
        first = await client.create_terminal(
            session_id=session, command="pytest", args=["-q"], env=env, output_byte_limit=1024
        )
        where = {"session_id": session, "terminal_id": first.terminal_id}
        shown = {"type": "terminal", "terminalId": first.terminal_id}
        await self.tool(
            session, ToolCallStart, toolCallId="run-1", title="pytest -q", kind="execute",
            status="in_progress", content=[shown],
        )  # fmt: skip
        saw["runningAtFirst"] = (await client.terminal_output(**where)).exit_status is None
        saw["exitCode"] = (await client.wait_for_terminal_exit(**where)).exit_code
        late = await client.terminal_output(**where)
        assert late.exit_status
        saw["output"], saw["exitStatus"] = late.output, late.exit_status.exit_code
        await client.release_terminal(**where)
        second = await client.create_terminal(session_id=session, command="sleep", args=["60"])
        where["terminal_id"] = second.terminal_id
        await client.kill_terminal(**where)
        saw["signal"] = (await client.wait_for_terminal_exit(**where)).signal
        await client.release_terminal(**where)
        await self.tool(
            session,
            ToolCallProgress,
            toolCallId="run-1",
            status="completed",
            rawOutput={"exitCode": 0},
        )


if __name__ == "__main__":
    # As fast-agent and others do: whatever version is asked for is answered, the body is v1.
    asyncio.run(acp.run_agent(Peer(echoes_version="--echo-version" in sys.argv)))
