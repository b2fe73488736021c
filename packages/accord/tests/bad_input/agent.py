"""Accord's agent of both versions, for bad input: the text of a prompt selects what it does.

It reports what it receives on stderr, one line each.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import Any

from accord import v1, v2
from accord.connection.limits import Limits
from accord.errors import InvalidParams
from accord.roles import serve
from accord.roles.binding import Role
from accord.transports.stdio import stdio

SECRET = "the password is swordfish"


def tell(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Extensions(Role):
    """Extension methods of both versions."""

    released: asyncio.Event
    sent = 0
    seen = 0

    def extension_request(self, method: str, params: Any, context: Any) -> Any:
        match method:
            case "_echo":
                return params
            case "_seen":
                return self.seen
            case "_fail":
                raise ValueError(SECRET)
            case "_fail_later":
                return self._fail_later()
            case "_refuse":
                raise InvalidParams("not like this", data={"hint": "like that"})
            case "_not_json":
                return {"secret": {SECRET: object()}}
            case "_hold":
                return self._hold(params)
            case _:
                return super().extension_request(method, params, context)

    def extension_notification(self, method: str, params: Any, context: Any) -> None:
        match method:
            case "_release":
                self.released.set()
            case "_tell_sent":
                tell(f"sent {self.sent}")
            case "_fail":
                raise ValueError(SECRET)
            case _:
                self.seen += 1

    async def _fail_later(self) -> None:
        await asyncio.sleep(0)
        raise ValueError(SECRET)

    async def _hold(self, params: Any) -> Any:
        await self.released.wait()
        return params


class AgentV1(v1.AgentRole, Extensions):
    """The prompt selects what its turn does."""

    def new_session(
        self, params: v1.NewSessionRequest, context: v1.AgentContext
    ) -> v1.NewSessionResponse:
        return v1.NewSessionResponse(session_id="s")

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        block = params.prompt[0]
        assert isinstance(block, v1.TextContent)
        match block.text.split():
            case ["stream", count]:
                await self._stream(int(count), context)
            case ["hang"]:
                await self._hang()
            case ["stubborn"]:
                await self._ignore_cancels()
            case _:
                await self._chunk(block.text, context)
        return v1.PromptResponse(stop_reason="end_turn")

    async def _stream(self, count: int, context: v1.AgentContext) -> None:
        for self.sent in range(count):
            await self._chunk(f"word {self.sent} ", context)

    async def _chunk(self, text: str, context: v1.AgentContext) -> None:
        update = v1.AgentMessageChunk(content=v1.TextContent(text=text))
        await context.client.session_update(v1.SessionNotification(session_id="s", update=update))

    async def _hang(self) -> None:
        tell("hanging")
        try:
            await self.released.wait()
        finally:
            tell("cancelled")

    async def _ignore_cancels(self) -> None:
        tell("stubborn")
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                tell("ignored")


class AgentV2(v2.AgentRole, Extensions):
    """Serves only extension methods."""

    info = v2.Implementation(name="bad input", version="0")


async def main() -> None:
    Extensions.released = asyncio.Event()
    # The usual 16 MiB of unread responses take long to write.
    limits = Limits(close_timeout_s=0.5, unread_responses_bytes=2 * 1024 * 1024)
    await serve(stdio(restore=False), AgentV1(), AgentV2(), limits=limits)
    tell(f"left {len(asyncio.all_tasks()) - 1}")


if __name__ == "__main__":
    warnings.simplefilter("error")
    asyncio.run(main())
