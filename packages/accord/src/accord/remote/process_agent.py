"""Serves each connection by an agent process of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from accord.errors import TransportError
from accord.text.excerpt import excerpt, one_line, visible
from accord.transports.base import Frame, Transport
from accord.transports.memory import relay
from accord.transports.process import process

log: logging.Logger = logging.getLogger("accord.remote")

FIRST_MESSAGE_S = 30.0


async def serve_process(argv: Sequence[str], transport: Transport) -> None:
    """Start an agent and pass on messages until the client or the agent ends.

    The agent gets the environment of this process without `ACCORD_TOKEN`. Why it could not be
    started, or how it ended, is logged and not sent.
    """
    agent = process(*argv, env={"ACCORD_TOKEN": None}, on_stderr=_log_stderr)()
    try:
        agent.spawn()
    except TransportError as exc:
        log.error("! the agent could not be started: %s", _shown(exc))
        await _wait_for_request(transport)
        return
    ended_first: list[Transport] = []
    log.debug("= agent process %d started", agent.pid)
    await relay(transport, agent, on_end=ended_first.append)
    if agent in ended_first:
        error = await agent.exit_error()
        log.warning("! agent process %d: %s", agent.pid, _shown(error or "ended"))


async def _wait_for_request(transport: Transport) -> None:
    """Wait for the first message of a client: its connection is closed with an answer to it."""
    waiting = _FirstFrame()
    await transport.start(waiting)
    await asyncio.wait([waiting.arrived], timeout=FIRST_MESSAGE_S)


class _FirstFrame:
    """The receiver that waits for a message, or for the end of input."""

    def __init__(self) -> None:
        self.arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self._note()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._note()

    def eof_received(self, error: Exception | None) -> None:
        self._note()

    def writable(self) -> None:
        pass

    def _note(self) -> None:
        if not self.arrived.done():
            self.arrived.set_result(None)


def _log_stderr(line: str) -> None:
    log.debug("agent: %s", one_line(visible(line)))  # may have what users have written


def _shown(error: object) -> str:
    return visible(one_line(excerpt(str(error), 500)))
