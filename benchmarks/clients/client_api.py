"""The client of the benchmarks on `accord.connect`: what users write, for both versions."""

from __future__ import annotations

import contextlib
from typing import Any

from harness import TERMINAL_TEXT, Bench, is_url, main, through_proxies
from workload import file_text

from accord import ClientSession, Text, connect
from accord.client import connect as connect_module
from accord.client.files import ClientTerminals


class PreparedFiles:
    """Has the text of every file in memory, as the other clients do."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def read(self, path: str) -> str:
        return file_text(path)

    def write(self, path: str, text: str) -> None:
        self.bench.written += len(text)


class PreparedTerminals(ClientTerminals):
    """Starts no process, as the other clients do not."""

    def create(self, *args: Any, **kwargs: Any) -> str:
        return "t1"

    def output(self, *args: Any) -> tuple[str, bool, tuple[int | None, str | None] | None]:
        return TERMINAL_TEXT, False, (0, None)

    async def wait(self, *args: Any) -> tuple[int | None, str | None]:
        return 0, None

    async def release(self, *args: Any) -> None:
        pass


class ApiBench(Bench):
    """One agent and its sessions."""

    # The tool call of a turn shows its terminal, in an update of its own if there is time for it.
    counts_updates = False

    async def start(self, argv: list[str]) -> None:
        connect_module.ClientTerminals = PreparedTerminals  # type: ignore[misc]
        self.sessions: dict[str, ClientSession] = {}
        self.stack = contextlib.AsyncExitStack()
        self.agent = await self.stack.enter_async_context(
            connect(
                argv[0] if is_url(argv) else through_proxies(argv) or argv,
                files=PreparedFiles(self),
                terminals=True,
                permissions=lambda request: "allow",
                versions=(1,),
            )
        )

    async def new_session(self) -> str:
        session = await self.agent.new_session("/")
        self.sessions[session.id] = session
        return session.id

    async def prompt(self, session_id: str, *texts: str) -> str:
        async with self.sessions[session_id].prompt(*texts) as turn:
            async for event in turn:
                if isinstance(event, Text):
                    self.on_text(session_id, event.text)
                else:
                    self.on_other(session_id)
        assert turn.stop_reason is not None
        return turn.stop_reason

    async def stop(self) -> None:
        await self.stack.aclose()


main(ApiBench)
