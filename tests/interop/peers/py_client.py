"""v1 client on the official Python SDK, 0.12 or 1.0; the turn is described in ../README.md."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    EnvVariable,
    Implementation,
    McpServerStdio,
    ResourceContentBlock,
    TerminalExitStatus,
    TextContentBlock,
)

NOTES = Path.cwd() / "notes.txt"


class Peer(acp.Client):
    agent: acp.Agent

    def __init__(self) -> None:
        self.files = {str(NOTES): "first\nsecond\nthird\n"}
        self.updates: list[str] = []
        self.calls: list[str] = []
        self.said: list[str] = []
        self.seen: dict[str, Any] = {"mode": None}
        self.terminals: dict[str, TerminalExitStatus | None] = {}
        self.created = 0
        self.cancelling = False
        self.session = ""  # as the agent names it

    def on_connect(self, conn: acp.Agent) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        assert session_id == self.session
        self.updates.append(update.session_update)
        match update.session_update:
            case "current_mode_update":
                self.seen["mode"] = update.current_mode_id
            case "plan":
                self.seen["plan"] = [entry.status for entry in update.entries]
            case "session_info_update":
                self.seen["title"] = update.title
            case "tool_call" | "tool_call_update":
                if update.raw_input is not None:
                    self.seen["rawInput"] = update.raw_input["nested"]
                for item in update.content or []:
                    if item.type == "diff":
                        self.seen["diff"] = [Path(item.path).name, item.old_text, item.new_text]
                    if item.type == "terminal":
                        self.seen["terminal"] = item.terminal_id
            case "agent_message_chunk":
                self.said.append(update.content.text)
                if update.content.text == "waiting":
                    await self.agent.cancel(session_id=self.session)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> acp.RequestPermissionResponse:
        self.called(
            f"permission {tool_call.tool_call_id} {','.join(option.kind for option in options)}",
            session_id,
        )
        if self.cancelling:
            await self.agent.cancel(session_id=self.session)
            return acp.RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        allow = next(option for option in options if option.kind == "allow_once")
        return acp.RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=allow.option_id)
        )

    async def read_text_file(
        self,
        session_id: str,
        path: str,
        line: int | None = None,
        limit: int | None = None,
        **_: Any,
    ) -> acp.ReadTextFileResponse:
        self.called("read", session_id)
        lines = self.files[path].splitlines(keepends=True)[(line or 1) - 1 :]
        return acp.ReadTextFileResponse(content="".join(lines[:limit]))

    async def write_text_file(
        self, session_id: str, path: str, content: str, **_: Any
    ) -> acp.WriteTextFileResponse:
        self.called("write", session_id)
        self.files[path] = content
        return acp.WriteTextFileResponse()

    async def create_terminal(
        self, session_id: str, command: str, **_: Any
    ) -> acp.CreateTerminalResponse:
        self.called("create", session_id)
        self.created += 1
        self.terminals[f"terminal-{self.created}"] = None
        return acp.CreateTerminalResponse(terminal_id=f"terminal-{self.created}")

    async def terminal_output(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> acp.TerminalOutputResponse:
        self.called("output", session_id)
        status = self.terminals[terminal_id]
        return acp.TerminalOutputResponse(
            output="2 passed\n" if status else "", truncated=False, exit_status=status
        )

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> acp.WaitForTerminalExitResponse:
        self.called("wait", session_id)
        status = self.terminals[terminal_id] or TerminalExitStatus(exit_code=0)
        self.terminals[terminal_id] = status
        return acp.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill_terminal(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> acp.KillTerminalResponse:
        self.called("kill", session_id)
        self.terminals[terminal_id] = TerminalExitStatus(signal="SIGKILL")
        return acp.KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> acp.ReleaseTerminalResponse:
        self.called("release", session_id)
        del self.terminals[terminal_id]
        return acp.ReleaseTerminalResponse()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method != "interop/echo":
            raise acp.RequestError.method_not_found(method)
        return params

    def called(self, name: str, session_id: str) -> None:
        assert session_id == self.session
        self.calls.append(name)


async def number_of(agent: acp.Agent, method: str, **params: int) -> int:
    """Return the number that an extension method answers with, or the code of its error."""
    try:
        return (await agent.ext_method(method, params))["n"]
    except acp.RequestError as error:
        return error.code


async def say(agent: acp.Agent, session_id: str, text: str, *more: Any) -> str:
    prompt = [TextContentBlock(type="text", text=text), *more]
    return (await agent.prompt(session_id=session_id, prompt=prompt)).stop_reason


async def turns(agent: acp.Agent, peer: Peer) -> dict[str, Any]:
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    started = await agent.initialize(
        protocol_version=acp.PROTOCOL_VERSION,
        client_info=Implementation(name="python", version="1"),
        client_capabilities=ClientCapabilities.model_validate(capabilities),
    )
    env = [EnvVariable(name="A", value="b")]
    server = McpServerStdio(name="notes", command="/bin/true", args=["--stdio"], env=env)
    session = await agent.new_session(cwd=str(Path.cwd()), mcp_servers=[server])
    peer.session = session.session_id
    assert session.modes
    assert started.agent_info
    assert started.agent_capabilities
    await agent.set_session_mode(session_id=peer.session, mode_id="code")
    mode_at_answer = peer.seen["mode"]
    echo = await number_of(agent, "interop/echo", n=1)
    missing = await number_of(agent, "interop/missing")
    link = ResourceContentBlock(type="resource_link", name="notes.txt", uri=NOTES.as_uri())
    stops = [await say(agent, peer.session, "work", link)]
    sentence, saw = peer.said
    stops.append(await say(agent, peer.session, "wait"))
    peer.cancelling = True
    stops.append(await say(agent, peer.session, "ask"))
    return {
        "protocolVersion": started.protocol_version,
        "agent": started.agent_info.name,
        "embeddedContext": started.agent_capabilities.prompt_capabilities.embedded_context,
        "modes": [mode.id for mode in session.modes.available_modes],
        "modeAtAnswer": mode_at_answer,
        "echo": echo,
        "missing": missing,
        "stops": stops,
        "sentence": sentence,
        "saw": json.loads(saw),
        "updates": peer.updates,
        "calls": peer.calls,
        "plan": peer.seen["plan"],
        "rawInput": peer.seen["rawInput"],
        "diff": peer.seen["diff"],
        "terminal": peer.seen["terminal"],
        "title": peer.seen["title"],
        "notes": peer.files[str(NOTES)],
        "leftTerminals": len(peer.terminals),
    }


async def over(stream: Any, peer: Peer) -> None:
    agent = acp.connect_to_agent(peer, stream)
    print(json.dumps(await turns(agent, peer)))
    await agent.close()


async def main(command: list[str]) -> None:
    peer = Peer()
    if command[0].startswith("ws://"):
        from acp.ws import create_websocket_stream

        login = {"Authorization": f"Bearer {os.environ['ACCORD_TOKEN']}"}
        await over(await create_websocket_stream(command[0], headers=login), peer)
        return
    if command[0].startswith("http://"):
        from acp.http.client import create_http_stream

        login = {"Authorization": f"Bearer {os.environ['ACCORD_TOKEN']}"}
        await over(create_http_stream(command[0], headers=login), peer)
        return
    async with acp.spawn_agent_process(peer, *command, transport_kwargs={"stderr": None}) as (
        agent,
        _process,
    ):
        print(json.dumps(await turns(agent, peer)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
