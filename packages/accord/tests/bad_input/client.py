"""Accord's client over its own stdin and stdout, for bad input from a test that acts as the agent.

It reports what it receives on stderr, one line each.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import warnings
from typing import IO, Any

from accord import v1
from accord.connection.limits import Limits
from accord.errors import AccordError, BacklogExceeded
from accord.roles import connect
from accord.transports.base import Transport
from accord.transports.stdio import PipeTransport, stdio

LIMITS = Limits(close_timeout_s=0.5)
_reports = threading.local()


def tell(text: str) -> None:
    stream: IO[str] = getattr(_reports, "stream", sys.stderr)
    stream.write(text + "\n")
    stream.flush()


class Plain(v1.ClientRole):
    """Reports the text of updates."""

    def session_update(self, params: v1.SessionNotification, context: v1.ClientContext) -> None:
        match params.update:
            case v1.AgentMessageChunk(content=v1.TextContent(text=text)):
                tell(f"update {text!a}")
            case other:
                tell(f"update {other}")


class Slow(v1.ClientRole):
    """Handles its first update until SIGUSR1, and reports whether the others arrived in order."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self.go_on.set)
        self.count = 0
        self.in_order = True

    async def session_update(
        self, params: v1.SessionNotification, context: v1.ClientContext
    ) -> None:
        if self.count == 0:
            tell("waiting")
        await self.go_on.wait()
        match params.update:
            case v1.AgentMessageChunk(content=v1.TextContent(text=text)):
                self.in_order &= int(text.split()[0]) == self.count
                self.count += 1
            case _:
                tell(f"{self.count} updates, in order: {self.in_order}")


class Asking(v1.ClientRole):
    """Sends the agent a request from each update handler, which is never answered."""

    def backlog_exceeded(self, session_id: str | None, error: BacklogExceeded) -> None:
        tell(f"exceeded in {session_id}")

    async def session_update(
        self, params: v1.SessionNotification, context: v1.ClientContext
    ) -> None:
        tell("asking")
        try:
            await context.agent.call_extension("_never")
        except AccordError as exc:
            tell(f"{type(exc).__name__}: {exc}")


class Stubborn(v1.ClientRole):
    """Its update handlers ignore cancellation."""

    async def session_update(
        self, params: v1.SessionNotification, context: v1.ClientContext
    ) -> None:
        tell("stubborn")
        never = asyncio.Event()
        while True:
            try:
                await never.wait()
            except asyncio.CancelledError:
                tell("ignored")


async def ask(agent: Any, count: int) -> None:
    """Send a number of requests, one after the other, and report the results."""
    for number in range(count):
        try:
            result = await agent.call_extension("_question", {"number": number})
            tell(f"answered {result!a}")
        except AccordError as exc:
            tell(f"{type(exc).__name__} {exc}")


async def main(kind: str, count: int, transport: Transport) -> None:
    kinds = {"plain": Plain, "slow": Slow, "behind": Slow, "asking": Asking, "stubborn": Stubborn}
    client = kinds[kind]()
    async with connect(transport, client, limits=LIMITS) as agent:
        tell("connected")
        if kind == "slow" and isinstance(client, Slow):
            await client.go_on.wait()
        await ask(agent, count)
    tell("closed")


def run_in_thread(kind: str, count: int, read_fd: int, write_fd: int, report_fd: int) -> None:
    """Run the client over pipes, which it closes."""
    with open(report_fd, "w", encoding="utf-8", errors="backslashreplace") as reports:
        _reports.stream = reports
        log, handler = logging.getLogger("accord"), logging.StreamHandler(reports)
        log.addHandler(handler)
        try:
            asyncio.run(main(kind, count, PipeTransport(read_fd, write_fd)))
        finally:
            log.removeHandler(handler)


if __name__ == "__main__":
    warnings.simplefilter("error")
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), stdio(restore=False)))
