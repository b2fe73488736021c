"""A raw connection of the kit waits for its peer as long as allowed, and no longer."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from accord.transports.memory import pair
from accord_conformance.harness import NoResponse, RawConnection


class Echo:
    """Answers every request after a delay."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport

    def frames_received(self, frames: Any) -> None:
        for frame in frames:
            said = msgspec.json.decode(bytes(frame))
            answer = msgspec.json.encode({"jsonrpc": "2.0", "id": said["id"], "result": {}})
            asyncio.get_running_loop().call_soon(self.transport.write, [answer])

    def frame_refused(self, limit: int, head: bytes = b"") -> None: ...

    def eof_received(self, error: Exception | None) -> None: ...

    def writable(self) -> None: ...


async def test_first_response_can_take_as_long_as_the_start() -> None:
    ours, theirs = pair()
    await theirs.start(Echo(theirs))
    line = RawConnection(ours, "client", answer_s=0.0, start_s=30.0)
    await line.open()
    call = await line.call("initialize", {})
    assert call.ok
    with pytest.raises(NoResponse, match="no response to session/new"):
        await line.call("session/new", {})
    await line.aclose()
    await theirs.aclose()
