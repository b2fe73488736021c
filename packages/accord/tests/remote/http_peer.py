"""A client of streamable HTTP on httpx2: it sends what a test says, and shows what arrives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from event_loop import LIMIT_S, Changing

TOKEN = "a token of a test, long enough"


class Stream(Changing):
    """The events and comments of one GET; `ended` is set at the end of the response."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__()
        self.response = response
        self.events: list[dict[str, Any]] = []
        self.text = ""
        self._rest = ""
        self.ended = False

    async def read(self) -> None:
        try:
            async for text in self.response.aiter_text():
                self.text += text
                whole, _, self._rest = (self._rest + text).rpartition("\n\n")
                for event in whole.split("\n\n"):
                    if event.startswith("data: {"):
                        self.events.append(json.loads(event.removeprefix("data: ")))
                self.changed.set()
        except httpx2.HTTPError:
            pass
        self.ended = True
        self.changed.set()

    async def find(self, **fields: Any) -> dict[str, Any]:
        """Wait for the event that has these fields."""
        return await self.until(
            lambda: next(
                (e for e in self.events if all(e.get(k) == v for k, v in fields.items())), None
            )
        )

    async def response_to(self, request_id: Any) -> dict[str, Any]:
        return await self.until(
            lambda: next(
                (e for e in self.events if e.get("id") == request_id and "method" not in e), None
            )
        )

    async def end(self) -> None:
        await self.until(lambda: self.ended)


class HttpPeer:
    """One client: a connection, its streams, and any request."""

    def __init__(self, url: str, http: httpx2.AsyncClient) -> None:
        self.url = url
        self.http = http
        self.connection: str | None = None
        self.next_id = 0

    def headers(self, session: str | None = None) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if self.connection is not None:
            headers["Acp-Connection-Id"] = self.connection
        if session is not None:
            headers["Acp-Session-Id"] = session
        return headers

    async def post(
        self, message: Any, session: str | None = None, **headers: str | None
    ) -> httpx2.Response:
        """POST a message, or text as it is; a header of None is left out."""
        given: dict[str, str | None] = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            **self.headers(session),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        sent = {name: value for name, value in given.items() if value is not None}
        content = message if isinstance(message, (str, bytes)) else json.dumps(message)
        return await self.http.post(self.url, content=content, headers=sent)

    async def initialize(self, version: int = 1, **params: Any) -> dict[str, Any]:
        response = await self.post(
            {
                "jsonrpc": "2.0",
                "id": "init",
                "method": "initialize",
                "params": {"protocolVersion": version, "clientCapabilities": {}, **params},
            }
        )
        assert response.status_code == 200, response.text
        self.connection = response.headers["Acp-Connection-Id"]
        return response.json()

    async def request(
        self, method: str, params: Any, session: str | None = None, **headers: str | None
    ) -> int:
        """POST a request that is accepted; return its id."""
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}
        response = await self.post(message, session, **headers)
        assert (response.status_code, response.content) == (202, b""), response.text
        return self.next_id

    async def answer(self, request_id: Any, result: Any, session: str | None = None) -> int:
        message = {"jsonrpc": "2.0", "id": request_id, "result": result}
        return (await self.post(message, session)).status_code

    async def get(self, session: str | None = None, **headers: str) -> httpx2.Response:
        """GET without reading the body."""
        given = {"Accept": "text/event-stream", **self.headers(session)}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = self.http.build_request("GET", self.url, headers=given)
        return await self.http.send(request, stream=True)

    @asynccontextmanager
    async def stream(self, session: str | None = None) -> AsyncGenerator[Stream]:
        """Read a stream during the block."""
        response = await self.get(session)
        assert response.status_code == 200
        stream = Stream(response)
        reading = asyncio.create_task(stream.read())
        try:
            yield stream
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            await response.aclose()

    async def delete(self) -> int:
        return (await self.http.delete(self.url, headers=self.headers())).status_code

    async def new_session(self, stream: Stream, cwd: str = "/") -> str:
        """Return the id of a new session; `stream` is that of the connection."""
        request = await self.request("session/new", {"cwd": cwd, "mcpServers": []})
        return (await stream.response_to(request))["result"]["sessionId"]


@asynccontextmanager
async def http_peer(address: str, *, http2: bool = False) -> AsyncGenerator[HttpPeer]:
    """Give a client of `HOST:PORT`, which speaks HTTP/1.1, or HTTP/2 by prior knowledge."""
    async with httpx2.AsyncClient(http1=not http2, http2=http2, timeout=LIMIT_S) as http:
        yield HttpPeer(f"http://{address}/acp", http)
