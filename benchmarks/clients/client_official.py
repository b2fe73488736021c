"""The client of the benchmarks on PyPI `agent-client-protocol`."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from acp import PROTOCOL_VERSION, Client, connect_to_agent, spawn_agent_process
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    CreateTerminalResponse,
    FileSystemCapabilities,
    ReadTextFileResponse,
    ReleaseTerminalResponse,
    RequestPermissionResponse,
    TerminalOutputResponse,
    TextContentBlock,
    WaitForTerminalExitResponse,
    WriteTextFileResponse,
)
from harness import TERMINAL_TEXT, Bench, is_url, main, uses_http2
from workload import file_text


async def network_stream(url: str) -> Any:
    """Connect by WebSocket or HTTP."""
    if url.startswith("ws"):
        from acp.ws import create_websocket_stream

        return await create_websocket_stream(url)
    import httpx2
    from acp.http import create_http_stream

    if not uses_http2():
        return create_http_stream(url)
    client = httpx2.AsyncClient(http1=False, http2=True, timeout=httpx2.Timeout(None))
    return create_http_stream(url, client=client)


class Screen(Client):
    """Hands everything to the bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id, update, **kw):
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            self.bench.on_text(session_id, update.content.text)
        else:
            self.bench.on_other(session_id)

    async def request_permission(self, session_id, tool_call, options, **kw):
        outcome = AllowedOutcome(option_id=options[0].option_id, outcome="selected")
        return RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id, path, line=None, limit=None, **kw):
        return ReadTextFileResponse(content=file_text(path))

    async def write_text_file(self, session_id, path, content, **kw):
        self.bench.written += len(content)
        return WriteTextFileResponse()

    async def create_terminal(
        self, session_id, command, args=None, env=None, cwd=None, output_byte_limit=None, **kw
    ):
        return CreateTerminalResponse(terminal_id="t1")

    async def terminal_output(self, session_id, terminal_id, **kw):
        return TerminalOutputResponse(output=TERMINAL_TEXT, truncated=False)

    async def wait_for_terminal_exit(self, session_id, terminal_id, **kw):
        return WaitForTerminalExitResponse(exit_code=0)

    async def release_terminal(self, session_id, terminal_id, **kw):
        return ReleaseTerminalResponse()


class OfficialBench(Bench):
    """One agent started by the SDK's own function, or reached by its network clients."""

    async def start(self, argv: list[str]) -> None:
        self.stack = contextlib.AsyncExitStack()
        if is_url(argv):
            self.agent = connect_to_agent(Screen(self), await network_stream(argv[0]))
            self.stack.push_async_callback(self.agent.close)
        else:
            self.agent, _ = await self.stack.enter_async_context(
                spawn_agent_process(
                    Screen(self),
                    argv[0],
                    *argv[1:],
                    env=dict(os.environ),
                    transport_kwargs={"stderr": None},
                )
            )
        capabilities = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
        )
        await self.agent.initialize(
            protocol_version=PROTOCOL_VERSION, client_capabilities=capabilities
        )

    async def new_session(self) -> str:
        return (await self.agent.new_session(cwd="/tmp", mcp_servers=[])).session_id

    async def prompt(self, session_id: str, *texts: str) -> str:
        blocks = [TextContentBlock(type="text", text=text) for text in texts]
        return (await self.agent.prompt(session_id=session_id, prompt=blocks)).stop_reason

    async def stop(self) -> None:
        await self.stack.aclose()


main(OfficialBench)
