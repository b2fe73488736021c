"""The client of the benchmarks on Accord."""

from __future__ import annotations

import contextlib

from harness import TERMINAL_TEXT, Bench, is_url, main, through_proxies, uses_http2
from workload import file_text

from accord import v1
from accord.roles import connect
from accord.transports.process import process
from accord.transports.registry import RemoteOptions, transport_for_url


class Screen(v1.ClientRole):
    """Hands everything to the bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def session_update(self, params: v1.SessionNotification, context: v1.ClientContext) -> None:
        match params.update:
            case v1.AgentMessageChunk(content=v1.TextContent(text=text)):
                self.bench.on_text(params.session_id, text)
            case _:
                self.bench.on_other(params.session_id)

    def request_permission(
        self, params: v1.RequestPermissionRequest, context: v1.ClientContext
    ) -> v1.RequestPermissionResponse:
        outcome = v1.SelectedPermissionOutcome(option_id=params.options[0].option_id)
        return v1.RequestPermissionResponse(outcome=outcome)

    def read_text_file(
        self, params: v1.ReadTextFileRequest, context: v1.ClientContext
    ) -> v1.ReadTextFileResponse:
        return v1.ReadTextFileResponse(content=file_text(params.path))

    def write_text_file(
        self, params: v1.WriteTextFileRequest, context: v1.ClientContext
    ) -> v1.WriteTextFileResponse:
        self.bench.written += len(params.content)
        return v1.WriteTextFileResponse()

    def create_terminal(
        self, params: v1.CreateTerminalRequest, context: v1.ClientContext
    ) -> v1.CreateTerminalResponse:
        return v1.CreateTerminalResponse(terminal_id="t1")

    def terminal_output(
        self, params: v1.TerminalOutputRequest, context: v1.ClientContext
    ) -> v1.TerminalOutputResponse:
        return v1.TerminalOutputResponse(output=TERMINAL_TEXT, truncated=False)

    def wait_for_terminal_exit(
        self, params: v1.WaitForTerminalExitRequest, context: v1.ClientContext
    ) -> v1.WaitForTerminalExitResponse:
        return v1.WaitForTerminalExitResponse(exit_code=0)

    def kill_terminal(
        self, params: v1.KillTerminalRequest, context: v1.ClientContext
    ) -> v1.KillTerminalResponse:
        return v1.KillTerminalResponse()

    def release_terminal(
        self, params: v1.ReleaseTerminalRequest, context: v1.ClientContext
    ) -> v1.ReleaseTerminalResponse:
        return v1.ReleaseTerminalResponse()


class AccordBench(Bench):
    """One agent: a process, or one at a URL."""

    async def start(self, argv: list[str]) -> None:
        self.stack = contextlib.AsyncExitStack()
        if is_url(argv):
            transport = transport_for_url(argv[0], RemoteOptions(h2c=uses_http2()))
        else:
            transport = through_proxies(argv) or process(*argv)
        self.agent = await self.stack.enter_async_context(connect(transport, Screen(self)))

    async def new_session(self) -> str:
        answer = await self.agent.new_session(v1.NewSessionRequest(cwd="/tmp", mcp_servers=[]))
        return answer.session_id

    async def prompt(self, session_id: str, *texts: str) -> str:
        answer = await self.agent.prompt(
            v1.PromptRequest(
                session_id=session_id, prompt=[v1.TextContent(text=text) for text in texts]
            )
        )
        return answer.stop_reason

    async def stop(self) -> None:
        await self.stack.aclose()


main(AccordBench)
