"""Holds idle WebSocket connections to a server, and prints what one of them takes there.

python idle.py URL PID COUNT
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from urllib.parse import urlsplit

from machine import memory_mb

WARM = 50
CONNECTING = 50  # at the same time
SETTLE_S = 1.0

INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
).encode()


def text_frame(payload: bytes) -> bytes:
    """Return a text message of fewer than 65,536 bytes, masked by zeros."""
    size = len(payload)
    length = bytes([128 | size]) if size < 126 else bytes([128 | 126]) + size.to_bytes(2, "big")
    return b"\x81" + length + bytes(4) + payload


async def connect(url: str) -> asyncio.StreamWriter:
    """Connect, and wait for the response to `initialize`."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=4096)
    writer.write(
        f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head, head
    writer.write(text_frame(INITIALIZE))
    await reader.readuntil(b"protocolVersion")
    return writer


async def main(url: str, server: int, count: int) -> None:
    held: list[asyncio.StreamWriter] = []

    async def more(number: int) -> None:
        for at in range(0, number, CONNECTING):
            batch = min(CONNECTING, number - at)
            held.extend(await asyncio.gather(*(connect(url) for _ in range(batch))))

    await more(WARM)
    await asyncio.sleep(SETTLE_S)
    before = memory_mb(server)
    start = time.perf_counter()
    await more(count)
    elapsed = time.perf_counter() - start
    await asyncio.sleep(SETTLE_S)
    used = memory_mb(server) - before
    assert not any(writer.transport.is_closing() for writer in held), "connections were closed"
    result = {"kb": used * 1024 / count, "mb": used, "connects_per_s": count / elapsed}
    print("RESULT " + json.dumps(result), flush=True)
    os._exit(0)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
