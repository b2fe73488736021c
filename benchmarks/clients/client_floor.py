"""The client of the benchmarks on a bare asyncio and msgspec loop."""

from __future__ import annotations

import subprocess

from floor import types as t
from floor.connection import connect
from harness import TERMINAL_TEXT, Bench, main
from workload import file_text


class FloorBench(Bench):
    """Answers from structs, nothing else."""

    async def start(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(  # noqa: ASYNC220 - as bare as it gets
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        handlers = {
            "session/update": self.session_update,
            "session/request_permission": self.request_permission,
            "fs/read_text_file": self.read_text_file,
            "fs/write_text_file": self.write_text_file,
            "terminal/create": self.create_terminal,
            "terminal/output": self.terminal_output,
            "terminal/wait_for_exit": self.wait_for_terminal_exit,
            "terminal/release": self.release_terminal,
        }
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        self.agent = await connect(handlers, self.process.stdout, self.process.stdin)
        capabilities = t.ClientCapabilities(
            t.Files(read_text_file=True, write_text_file=True), terminal=True
        )
        await self.agent.request("initialize", t.InitializeRequest(1, capabilities))

    async def new_session(self) -> str:
        answer = await self.agent.request("session/new", t.NewSessionRequest("/tmp", []))
        return answer.session_id

    async def prompt(self, session_id: str, *texts: str) -> str:
        blocks = [t.TextContent(text) for text in texts]
        answer = await self.agent.request("session/prompt", t.PromptRequest(session_id, blocks))
        return answer.stop_reason

    async def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()

    async def session_update(self, params: t.SessionNotification) -> None:
        update = params.update
        if type(update) is t.AgentMessageChunk and type(update.content) is t.TextContent:
            self.on_text(params.session_id, update.content.text)
        else:
            self.on_other(params.session_id)

    async def request_permission(self, params: t.PermissionRequest) -> t.PermissionResponse:
        return t.PermissionResponse(t.Selected(params.options[0].option_id))

    async def read_text_file(self, params: t.ReadRequest) -> t.ReadResponse:
        return t.ReadResponse(file_text(params.path))

    async def write_text_file(self, params: t.WriteRequest) -> t.Empty:
        self.written += len(params.content)
        return t.Empty()

    async def create_terminal(self, params: t.CreateTerminalRequest) -> t.CreateTerminalResponse:
        return t.CreateTerminalResponse("t1")

    async def terminal_output(self, params: t.TerminalRequest) -> t.OutputResponse:
        return t.OutputResponse(TERMINAL_TEXT, truncated=False)

    async def wait_for_terminal_exit(self, params: t.TerminalRequest) -> t.ExitStatus:
        return t.ExitStatus(0)

    async def release_terminal(self, params: t.TerminalRequest) -> t.Empty:
        return t.Empty()


main(FloorBench)
