"""Recorded frames between Accord's client and the script agent, to be mutated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import accord
from accord import connect
from accord.client.permissions import allow
from accord.script_agent.agent import ScriptAgent
from accord.transports.base import Frame, Receiver, Transport
from accord.transports.memory import pair
from raw_peer import QUICK
from versions import only

__all__ = ("HARMLESS", "Corpus", "Tap", "corpus")

# Prompts of the script agent that touch neither files nor processes.
HARMLESS = (
    "help",
    "echo hello",
    "stream 3",
    "think about it",
    "content",
    "tools",
    "plan",
    "updates",
    "permission",
    "elicit",
    "usage",
    "title New",
    "commands",
    "mode read",
    "notice hello",
    "compact",
    "subagent",
    "tokens",
    "system",
    "error",
    "stop refusal",
    "background 0",
    "extension",
)


@dataclass
class Corpus:
    """Messages by the side that received them."""

    to_agent: list[Any] = field(default_factory=list)
    to_client: list[Any] = field(default_factory=list)

    def results(self, messages: Sequence[Any], asked: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the results of `asked` by method."""
        methods = {m["id"]: m["method"] for m in asked if "method" in m and "id" in m}
        found: dict[str, list[Any]] = {}
        for message in messages:
            if "method" not in message and message.get("id") in methods:
                found.setdefault(methods[message["id"]], []).append(message)
        return found


class Tap(Transport):
    """A transport that records what it reads."""

    def __init__(self, inner: Transport, kept: list[Any]) -> None:
        self._inner = inner
        self._kept = kept

    async def start(self, receiver: Receiver) -> None:
        take = receiver.frames_received

        def keep(frames: Sequence[Frame]) -> None:
            self._kept += [json.loads(frame) for frame in frames]
            take(frames)

        class Kept:
            frames_received = staticmethod(keep)
            frame_refused = staticmethod(receiver.frame_refused)
            eof_received = staticmethod(receiver.eof_received)
            writable = staticmethod(receiver.writable)

        await self._inner.start(Kept())

    def write(self, frames: Sequence[Frame]) -> None:
        self._inner.write(frames)

    @property
    def congested(self) -> bool:
        return self._inner.congested

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    async def aclose(self) -> None:
        await self._inner.aclose()


@cache
def corpus(version: int) -> Corpus:
    """Record a conversation in one version; do not call it from within an event loop."""
    return asyncio.run(_record(version))


async def _record(version: int) -> Corpus:
    found = Corpus()
    here, there = pair()
    agent = ScriptAgent()
    serving = asyncio.ensure_future(accord.serve(agent, Tap(here, found.to_agent), limits=QUICK))

    async def fill(form: Any) -> dict[str, Any]:
        return {}

    async def visit(page: Any) -> bool:
        return True

    async with (
        asyncio.timeout(60),
        connect(
            Tap(there, found.to_client),
            versions=only(version),
            permissions=allow("*"),
            on_elicit_form=fill,
            on_elicit_url=visit,
            unstable=True,
            limits=QUICK,
        ) as client,
    ):
        session = await client.new_session("/")
        for prompt in HARMLESS:
            async with session.prompt(prompt) as turn:
                with suppress(accord.AccordError):
                    await turn.wait()
        await session.set_mode("auto")
        async for _ in client.list_sessions():
            pass
        await session.close()
        await client.load_session(session_id_of(found), "/")
        await client.delete_session(session_id_of(found))
    await serving
    return found


def session_id_of(found: Corpus) -> str:
    """Return the id of the recorded session."""
    for message in found.to_client:
        result = message.get("result")
        if isinstance(result, dict) and "sessionId" in result:
            return result["sessionId"]
    raise AssertionError("no session was opened")
