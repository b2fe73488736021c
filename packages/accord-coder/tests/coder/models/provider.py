"""A model provider on this machine: real HTTP, in both streaming formats.

    async with serve_provider(Says("Hello"), Fails(429), …) as provider:
        provider.url            # for Chat Completions; `provider.root` for Messages
        provider.requests       # the decoded requests

The replies are sent in this order, one for each request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

__all__ = (
    "Breaks",
    "Ends",
    "Fails",
    "Provider",
    "ReceivedRequest",
    "Says",
    "SendsBytes",
    "Stalls",
    "serve_provider",
)


@dataclass
class Says:
    """A response that is streamed in pieces."""

    text: str = ""
    thinking: str = ""
    uses: Sequence[tuple[str, dict[str, Any]]] = ()
    stop: str = ""  # in the format's own terms; the default follows from the reply
    tokens: tuple[int, int] | None = (100, 20)  # tokens of the prompt and the response
    refusal: str = ""


@dataclass
class Fails:
    """An error response."""

    status: int
    message: str = "No."
    type: str = "api_error"
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Stalls:
    """The first events of a response, and then nothing until the client disconnects."""

    says: Says
    events: int = 0


@dataclass
class Breaks:
    """The first events of a response, then a lost connection; 0: no response at all."""

    says: Says
    events: int = 0


@dataclass
class Ends:
    """The first events of a response, then a regular end of the stream."""

    says: Says
    events: int = 0


@dataclass
class SendsBytes:
    """A stream of these bytes."""

    stream: bytes


@dataclass
class ReceivedRequest:
    """A received request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Reply = Says | Fails | Stalls | Breaks | Ends | SendsBytes


class Provider:
    """The received requests, the remaining replies, and the clients that disconnected."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = list(replies)
        self.requests: list[ReceivedRequest] = []
        self.left = asyncio.Event()  # a client disconnected during a response
        self.reached = asyncio.Event()  # a response has reached the point where it stalls
        self.root = ""
        self.models: tuple[str, ...] = ()  # the response of /v1/models
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        """The base URL for Chat Completions."""
        return f"{self.root}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._one(reader, writer):
                    pass
        finally:
            del self._open[task]
            writer.close()

    async def aclose(self) -> None:
        for writer in tuple(self._open.values()):
            writer.transport.abort()
        await asyncio.gather(*self._open)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path = head[0].split()[1].partition("?")[0]
        if path == "/v1/models":
            listed = json.dumps({"object": "list", "data": [{"id": name} for name in self.models]})
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(listed)}\r\n\r\n".encode())
            writer.write(listed.encode())
            await writer.drain()
            return True
        self.requests.append(ReceivedRequest(path, headers, json.loads(body or b"{}")))
        match self.replies.pop(0) if self.replies else Fails(500, "nothing left to say"):
            case Fails() as fails:
                await _refuse(writer, fails, path)
                return True
            case Says() as says:
                await self._stream(writer, list(_events(says, path)))
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                return True
            case Ends(says, events):
                await self._stream(writer, list(_events(says, path))[:events])
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                return True
            case SendsBytes(stream):
                await self._stream(writer, [stream])
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                return True
            case Stalls(says, events):
                await self._stream(writer, list(_events(says, path))[:events])
                self.reached.set()
                await reader.read()
                self.left.set()
                return False
            case Breaks(says, events):
                if events:
                    await self._stream(writer, list(_events(says, path))[:events])
                return False

    async def _stream(self, writer: asyncio.StreamWriter, events: Sequence[bytes]) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for event in events:
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            await writer.drain()


@asynccontextmanager
async def serve_provider(*replies: Reply) -> AsyncGenerator[Provider, None]:
    """Run a provider; at the end of the block, all replies must have been used."""
    provider = Provider(replies)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.root = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()
        await provider.aclose()
        await server.wait_closed()
    assert not provider.replies, "there was more to say"


async def _refuse(writer: asyncio.StreamWriter, fails: Fails, path: str) -> None:
    error: dict[str, Any] = {"type": fails.type, "message": fails.message}
    if fails.code is not None:
        error["code"] = fails.code
    shown = {"type": "error", "error": error} if path.endswith("/messages") else {"error": error}
    body = json.dumps(shown).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in (headers | fails.headers).items()]
    head = "\r\n".join([f"HTTP/1.1 {fails.status} Refused", *lines, "", ""])
    writer.write(head.encode() + body)
    await writer.drain()


def _events(says: Says, path: str) -> Iterator[bytes]:
    if path.endswith("/messages"):
        for event in _messages(says):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        return
    for event in _chat(says):
        yield f"data: {json.dumps(event)}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _halves(text: str) -> list[str]:
    return [part for part in (text[: len(text) // 2], text[len(text) // 2 :]) if part]


def _chat(says: Says) -> Iterator[dict[str, Any]]:
    """Yield the events of Chat Completions."""
    base = {"id": "c-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}

    def chunk(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
        return base | {"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}

    yield chunk({"role": "assistant", "content": ""})
    for part in _halves(says.thinking):
        yield chunk({"reasoning_content": part})
    for part in _halves(says.text):
        yield chunk({"content": part})
    for part in _halves(says.refusal):
        yield chunk({"refusal": part})
    calls = [
        {"index": at, "id": f"call_{at}", "type": "function", "function": {"name": name}}
        for at, (name, _) in enumerate(says.uses)
    ]
    for call in calls:
        yield chunk({"tool_calls": [call]})
    # Their arguments are interleaved, as those of parallel calls can be.
    halves = [_halves(json.dumps(given)) for _, given in says.uses]
    for turn in range(2):
        for at, parts in enumerate(halves):
            if turn < len(parts):
                call = {"index": at, "function": {"arguments": parts[turn]}}
                yield chunk({"tool_calls": [call]})
    yield chunk({}, says.stop or ("tool_calls" if says.uses else "stop"))
    if says.tokens is not None:
        prompt, answer = says.tokens
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
        }
        yield base | {"choices": [], "usage": usage}


def _messages(says: Says) -> Iterator[dict[str, Any]]:
    """Yield the events of Messages."""
    prompt, answer = says.tokens or (0, 0)
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": prompt, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    at = 0

    def block(content: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        nonlocal at
        yield {"type": "content_block_start", "index": at, "content_block": content}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
        at += 1

    if says.thinking:
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _halves(says.thinking)]
        signed = [*deltas, {"type": "signature_delta", "signature": "signed"}]
        yield from block({"type": "thinking", "thinking": "", "signature": ""}, signed)
    if says.text:
        deltas = [{"type": "text_delta", "text": part} for part in _halves(says.text)]
        yield from block({"type": "text", "text": ""}, deltas)
    for name, given in says.uses:
        content = {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": {}}
        parts = _halves(json.dumps(given))
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        yield from block(content, deltas)
    stop = says.stop or ("tool_use" if says.uses else "end_turn")
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": answer},
    }
    yield {"type": "message_stop"}
