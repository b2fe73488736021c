"""v2 client on the official Python SDK 1.0; the turn is described in ../README.md."""

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import acp
from acp.experimental import v2
from acp.experimental.v2 import schema

NOTES = Path.cwd() / "notes.txt"


def plain(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Peer:
    agent: v2.ClientSideConnection

    def __init__(self) -> None:
        self.updates: list[str] = []
        self.calls: list[str] = []
        self.echoed: list[list[str]] = []
        self.said: dict[str, str] = {}
        self.titles: dict[str, str | None] = {}
        self.terminal: dict[str, Any] = {}
        self.output = b""
        self.seen: dict[str, Any] = {}
        self.cancelling = False
        self.session = ""  # as the agent names it
        self.stops: asyncio.Queue[str] = asyncio.Queue()

    def on_connect(self, conn: v2.ClientSideConnection) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        assert session_id == self.session
        fields = plain(update)
        state = fields.get("state")
        self.updates.append(fields["sessionUpdate"] + (f" {state}" if state else ""))
        match fields["sessionUpdate"]:
            case "user_message":
                self.echoed.append([fields["messageId"], fields["content"][0]["text"]])
            case "state_update" if state == "idle":
                self.stops.put_nowait(fields["stopReason"])
            case "plan_update":
                plan = fields["plan"]
                statuses = [entry["status"] for entry in plan["entries"]]
                self.seen["plan"] = [plan["planId"], *statuses]
            case "available_commands_update":
                commands = fields["availableCommands"]
                self.seen["commands"] = [command["name"] for command in commands]
            case "session_info_update":
                self.seen["title"] = fields["title"]
            case "tool_call_update":
                self.on_tool_call(fields)
            case "tool_call_content_chunk":
                self.on_content(fields["content"])
            case "terminal_update":
                if "command" in fields:
                    self.terminal["command"] = fields["command"]
                if "exitCode" in fields.get("exitStatus", {}):
                    self.terminal["exitCode"] = fields["exitStatus"]["exitCode"]
            case "terminal_output_chunk":
                self.output += base64.b64decode(fields["data"])
            case "agent_message":
                self.said[fields["messageId"]] = fields["content"][0]["text"]
            case "agent_message_chunk":
                words = fields["content"]["text"]
                message = fields["messageId"]
                self.said[message] = self.said.get(message, "") + words
                if words == "waiting":
                    await self.agent.cancel_session(session_id=self.session)

    def on_tool_call(self, fields: dict[str, Any]) -> None:
        if "title" in fields:
            self.titles[fields["toolCallId"]] = fields["title"]
        if "rawInput" in fields:
            self.seen["rawInput"] = fields["rawInput"]["nested"]
        for item in fields.get("content") or []:
            self.on_content(item)

    def on_content(self, item: dict[str, Any]) -> None:
        if item["type"] == "diff":
            changes = [
                f"{change['operation']} {Path(change['path']).name}" for change in item["changes"]
            ]
            self.seen["diff"] = [*changes, item["patch"]["format"]]
        if item["type"] == "terminal":
            self.terminal["id"] = item["terminalId"]

    async def request_permission(
        self, session_id: str, title: str, options: list[Any], subject: Any = None, **_: Any
    ) -> schema.RequestPermissionResponse:
        call = subject.tool_call.tool_call_id
        kinds = [option.kind for option in options]
        self.calls.append(",".join([title, subject.type, call, *kinds]))
        outcome = {"outcome": "selected"}
        if self.cancelling:
            await self.agent.cancel_session(session_id=self.session)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.calls.append("withdrawn")
                outcome = {"outcome": "cancelled"}
        else:
            allow = next(option for option in options if option.kind == "allow_once")
            outcome["optionId"] = allow.option_id
        return schema.RequestPermissionResponse.model_validate({"outcome": outcome})

    async def handle_extension_request(self, method: str, params: Any) -> Any:
        if method != "_interop/echo":
            raise acp.RequestError.method_not_found(method)
        return params


async def number_of(agent: v2.ClientSideConnection, method: str, **params: int) -> int:
    """Return the number that an extension method answers with, or the code of its error."""
    try:
        return (await agent.send_extension_request(method, params))["n"]
    except acp.RequestError as error:
        return error.code


async def turns(agent: v2.ClientSideConnection, peer: Peer) -> dict[str, Any]:
    info = schema.Implementation(name="python", version="1")
    capabilities = schema.ClientCapabilities()
    started = plain(
        await agent.initialize(protocol_version=2, info=info, capabilities=capabilities)
    )
    server = schema.StdioMcpServer.model_validate(
        {
            "type": "stdio",
            "name": "notes",
            "command": "/bin/true",
            "args": ["--stdio"],
            "env": [{"name": "A", "value": "b"}],
        }
    )
    session = plain(await agent.new_session(cwd=str(Path.cwd()), mcp_servers=[server]))
    peer.session = session["sessionId"]
    config = await agent.set_config_option("mode", peer.session, "code")
    echo = await number_of(agent, "_interop/echo", n=1)
    missing = await number_of(agent, "_interop/missing")
    messages: list[str] = []

    async def say(words: str, *more: Any) -> str:
        prompt = [schema.TextContentBlock(type="text", text=words), *more]
        messages.append((await agent.prompt(session_id=peer.session, prompt=prompt)).message_id)
        return await peer.stops.get()

    link = {"type": "resource_link", "name": "notes.txt", "uri": NOTES.as_uri()}
    stops = [await say("work", schema.ResourceContentBlock.model_validate(link))]
    stops.append(await say("wait"))
    peer.cancelling = True
    stops.append(await say("ask"))
    sessions = plain(await agent.list_sessions())["sessions"]
    await agent.close_session(session_id=peer.session)
    report = next(key for key, text in peer.said.items() if text.startswith("{"))
    return {
        "protocolVersion": started["protocolVersion"],
        "agent": started["info"]["name"],
        "embeddedContext": started["capabilities"]["session"]["prompt"]["embeddedContext"] == {},
        "modes": [option["value"] for option in session["configOptions"][0]["options"]],
        "mode": plain(config)["configOptions"][0]["currentValue"],
        "echo": echo,
        "missing": missing,
        "messages": messages,
        "stops": stops,
        "saw": json.loads(peer.said.pop(report)),
        "said": peer.said,
        "terminal": {**peer.terminal, "output": peer.output.decode()},
        "updates": peer.updates,
        "calls": peer.calls,
        "echoed": peer.echoed,
        "titles": peer.titles,
        **peer.seen,
        "sessions": [entry["sessionId"] for entry in sessions],
    }


async def main(command: list[str]) -> None:
    peer = Peer()
    async with (
        acp.spawn_stdio_transport(*command, stderr=None) as (reader, writer, _process),
        v2.connect_to_agent(peer, writer, reader) as agent,
    ):
        print(json.dumps(await turns(agent, peer)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
