"""A client of ACP by HTTP and WebSocket that differs as the clients of other SDKs do.

Each field of `ClientQuirks` is a point in which clients differ, and `CLIENT_PRESETS` has the values
of known ones. `faults` are mistakes, for tests of the conformance kit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from accord_conformance.network import Address, OpenStream, RawClient, RawSocket, Reply

__all__ = ("CLIENT_PRESETS", "ClientQuirks", "QuirkClient", "Refused")

Json: TypeAlias = dict[str, Any]
LIMIT_S = 10.0


class Refused(Exception):
    """The server has refused a request."""


@dataclass(frozen=True)
class ClientQuirks:
    """The points in which clients differ; the defaults are what the rules want."""

    header_for: frozenset[str] | None = None  # None: everything with a session
    answers_have_header: bool = True
    opens_before_load: bool = True
    opens_before_post: bool = True
    reopens: bool = True
    one_post_at_a_time: bool = True
    probes_h2c: bool = False
    cookies: bool = True
    version_header: bool = True
    deletes: bool = True
    ws_offers_deflate: bool = False
    ws_limit: int = 32 * 1024 * 1024
    ws_pings: bool = True
    ws_needs_id: bool = False
    faults: frozenset[str] = frozenset()


_RC3 = frozenset(
    f"session/{name}" for name in ("prompt", "cancel", "close", "set_mode", "set_config_option")
)
CLIENT_PRESETS: dict[str, ClientQuirks] = {
    "ts": ClientQuirks(reopens=False, version_header=False, ws_pings=False),
    "rust": ClientQuirks(
        answers_have_header=False,
        one_post_at_a_time=False,
        reopens=False,
        version_header=False,
        ws_pings=False,
    ),
    "java": ClientQuirks(probes_h2c=True, version_header=False, ws_pings=False),
    "rc3": ClientQuirks(
        header_for=_RC3,
        answers_have_header=False,
        opens_before_load=False,
        opens_before_post=False,
        reopens=False,
        version_header=False,
        ws_offers_deflate=True,
        ws_limit=1024 * 1024,
    ),
    # Qwen has no client: a browser page is the client of its server.
    "qwen": ClientQuirks(version_header=False, deletes=False, cookies=False),
}


class QuirkClient:
    """A client of one connection; use it with `async with`. The scheme of the URL decides how."""

    def __init__(
        self, url: str, quirks: ClientQuirks | str = "ts", *, token: str | None = None
    ) -> None:
        self.quirks = CLIENT_PRESETS[quirks] if isinstance(quirks, str) else quirks
        address = Address(url, token)
        self.raw = RawClient(address, within_s=LIMIT_S)
        self.is_http = url.startswith("http")
        self.connection_id: str | None = None
        self.cookie: str | None = None
        self.version = 1
        self.updates: list[Json] = []
        self.refusals: list[tuple[str, int]] = []
        self._streams: dict[str | None, OpenStream] = {}
        self._socket: RawSocket | None = None
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._last_id = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._posting = asyncio.Lock()
        self._errors: list[BaseException] = []
        self._gone = False
        self._reopened: set[str | None] = set()

    def has(self, fault: str) -> bool:
        return fault in self.quirks.faults

    async def __aenter__(self) -> QuirkClient:
        if not self.is_http:
            await self._open_socket()
        elif self.quirks.probes_h2c:
            fields = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c"}
            await self.raw.request("GET", {**fields, "HTTP2-Settings": "AAMAAABk"})
        return self

    async def __aexit__(self, *_: object) -> None:
        self._gone = True
        if self.is_http and self.connection_id and self.quirks.deletes:
            await self.raw.request("DELETE", self._headers(None), within_s=2)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self.raw.aclose()
        assert not self._errors, self._errors

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self._gone:
            self._errors.append(error)
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(error)

    # What a user does.

    async def initialize(self, version: int = 1) -> Json:
        self.version = version
        names = ("clientCapabilities", "clientInfo")
        if version == 2:
            names = ("capabilities", "info")
        info = {"name": "quirk-client", "version": "1"}
        abilities: Json = {"subagents": {}} if version == 1 else {}
        params = {"protocolVersion": version, names[0]: abilities, names[1]: info}
        if self.has("another first message"):
            self._send_text({"jsonrpc": "2.0", "method": "_accord/early", "params": {}})
        return await self.call("initialize", params)

    async def new_session(self, cwd: str) -> str:
        params: Json = {"cwd": cwd}
        if self.version == 1:
            params["mcpServers"] = []
        return (await self.call("session/new", params))["sessionId"]

    async def load_session(self, session: str, cwd: str) -> Json:
        return await self.call("session/load", {"sessionId": session, "cwd": cwd, "mcpServers": []})

    async def prompt(self, session: str, text: str) -> Json:
        content = [{"type": "text", "text": text}]
        if self.has("cancels with a session"):
            await self._notify("$/cancel_request", {"requestId": 4711}, session)
        elif self.is_http:
            await self._notify("$/cancel_request", {"requestId": 4711}, None)
        if self.has("no connection id"):
            fields = {"Content-Type": "application/json", **self._headers(None)}
            del fields["Acp-Connection-Id"]
            await self.raw.request("POST", fields, b"{}")
        return await self.call("session/prompt", {"sessionId": session, "prompt": content})

    # Messages.

    async def call(self, method: str, params: Json) -> Json:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._answers[json.dumps(self._last_id)] = answer
        if self.is_http:
            await self._post_request(message)
        else:
            self._send_text(message)
        async with asyncio.timeout(60):
            found = await answer
        if "error" in found:
            raise Refused(f"{method}: {found['error']}")
        result = found.get("result") or {}
        session = result.get("sessionId")
        if method == "session/load":
            session = params["sessionId"]
        if self.is_http and isinstance(session, str) and not self.has("late streams"):
            await self._open_stream(session)
        return result

    async def _notify(self, method: str, params: Json, session: str | None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        await self._post(message, session)

    async def _received(self, message: Json, stream: str | None) -> None:
        if "method" not in message:
            answer = self._answers.pop(json.dumps(message.get("id")), None)
            if answer is not None and not answer.done():
                answer.set_result(message)
            return
        params = message.get("params") or {}
        session = params.get("sessionId")
        if self.is_http and isinstance(session, str) and not self.quirks.opens_before_post:
            await self._open_stream(session)
        update = params.get("update") or {}
        child = update.get("sessionId")
        is_child = update.get("sessionUpdate") == "subagent_update" and isinstance(child, str)
        if is_child and self.is_http and not self.has("no child streams"):
            await self._open_stream(child)
        if "id" not in message:
            self.updates.append(message)
            return
        answer_fields: Json = {"error": {"code": -32601, "message": "Method not found"}}
        if message["method"] == "session/request_permission":
            try:
                chosen = {"outcome": "selected", "optionId": params["options"][0]["optionId"]}
                answer_fields = {"result": {"outcome": chosen}}
            except (TypeError, LookupError):
                answer_fields = {"error": {"code": -32602, "message": "Invalid params"}}
        body = {"jsonrpc": "2.0", "id": message["id"], **answer_fields}
        if not self.is_http:
            self._send_text(body)
            return
        await self._post(body, stream if self.quirks.answers_have_header else None)

    # HTTP.

    def _headers(self, session: str | None) -> dict[str, str]:
        found = {} if self.connection_id is None else {"Acp-Connection-Id": self.connection_id}
        if session is not None:
            found["Acp-Session-Id"] = session
        if self.quirks.version_header and self.connection_id is not None:
            found["Acp-Protocol-Version"] = str(self.version)
        if self.cookie is not None and self.quirks.cookies:
            found["Cookie"] = self.cookie
        return found

    async def _post_request(self, message: Json) -> None:
        session = message["params"].get("sessionId")
        method = message["method"]
        known = isinstance(session, str)
        header = session if known else None
        if self.quirks.header_for is not None and method not in self.quirks.header_for:
            header = None
        opens = self.quirks.opens_before_post and not self.has("late streams")
        if known and opens and (method != "session/load" or self.quirks.opens_before_load):
            await self._open_stream(session)
        reply = await self._post(message, None if self.has("no session header") else header)
        if method == "initialize":
            self.connection_id = reply.header("Acp-Connection-Id")
            self.cookie = (reply.header("Set-Cookie") or "").partition(";")[0] or None
            if self.connection_id is not None:
                await self._open_stream(None)
            self._answers.pop(json.dumps(message["id"])).set_result(reply.json())
        elif not 200 <= reply.status < 300:
            raise Refused(f"{method}: {reply.outcome}")
        if self.has("late streams") and known:
            await self._open_stream(session)

    async def _post(self, message: Json, session: str | None) -> Reply:
        kind = "text/plain" if self.has("text/plain") else "application/json"
        fields = {"Content-Type": kind, "Accept": "application/json", **self._headers(session)}
        body = json.dumps(message).encode()
        if self.quirks.one_post_at_a_time:
            async with self._posting:
                reply = await self.raw.request("POST", fields, body)
        else:
            reply = await self.raw.request("POST", fields, body)
        if reply.status in (301, 302, 307, 308) and self.has("follows redirects"):
            target = reply.header("Location")
            reply = await self.raw.request("POST", fields, body, target=target)
        if reply.status >= 400 or not reply.status:
            self.refusals.append((str(message.get("method", "answer")), reply.status))
        return reply

    async def _open_stream(self, session: str | None, *, last: str | None = None) -> bool:
        """Open a stream, unless it is open; return whether it is."""
        known = self._streams.get(session)
        if known is not None and not known.is_over:
            return True
        fields = self._headers(session)
        if self.has("any Accept"):
            fields["Accept"] = "*/*"
        if last is not None:
            fields["Last-Event-ID"] = "9999" if self.has("wrong last id") else last
        stream = await self.raw.open_stream(fields)
        if stream.status != 200:
            self.refusals.append(("GET", stream.status))
            if session is None:
                raise Refused(f"the stream of the connection: {stream.reply.outcome}")
            return False
        if self.has("LF only"):
            feed = stream.feed
            stream.feed = lambda data, record: None if b"\r" in data else feed(data, record)
        if self.has("small events"):
            whole = stream.feed
            stream.feed = lambda data, record: (
                None if len(data) > 20 * 1024 else whole(data, record)
            )
        self._streams[session] = stream
        self._start(self._read(session, stream))
        return True

    async def _read(self, session: str | None, stream: OpenStream) -> None:
        seen, last = 0, None
        changed = asyncio.Event()
        stream.on_change = changed.set
        while True:
            while seen < len(stream.events):
                event = stream.events[seen]
                seen += 1
                for line in event.lines:
                    if line.startswith(b"id:"):
                        last = line[3:].strip().decode()
                if event.message is not None:
                    if self.has("deaf after reopening") and session in self._reopened:
                        continue
                    await self._received(event.message, session)
            if stream.is_over:
                break
            changed.clear()
            await changed.wait()
        if self._gone:
            return
        if not self.quirks.reopens:
            self._fail_all("a stream has ended")
            return
        self._reopened.add(session)
        for wait_s in (0.05, 0.1, 0.2):
            await asyncio.sleep(wait_s)
            if await self._open_stream(session, last=last):
                return
        self._fail_all("the stream of a session was refused")
        if self.has("leaves when refused"):
            self._gone = True
            self.connection_id = None
            for one in list(self._streams.values()):
                await one.aclose()

    def _fail_all(self, why: str) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(Refused(why))

    # WebSocket.

    async def _open_socket(self) -> None:
        fields: dict[str, str] = {}
        if self.quirks.ws_offers_deflate:
            fields["Sec-WebSocket-Extensions"] = "permessage-deflate"
        reply, socket = await self.raw.upgrade(fields)
        if socket is None:
            raise Refused(reply.outcome)
        self.connection_id = reply.header("Acp-Connection-Id")
        if self.quirks.ws_needs_id and self.connection_id is None:
            await socket.aclose()
            raise Refused("no Acp-Connection-Id")
        socket.takes_binary = self.has("reads binary")
        if self.quirks.ws_pings:
            socket.send_ping()
        self._socket = socket
        self._start(self._read_socket(socket))

    def _send_text(self, message: Json) -> None:
        assert self._socket is not None
        body = json.dumps(message).encode()
        if self.has("sends binary") and message.get("method") == "session/prompt":
            self._socket.send_binary(b"{}")
        self._socket.send_text(body)

    async def _read_socket(self, socket: RawSocket) -> None:
        seen = 0
        while True:
            took = [*socket.texts, *socket.binaries] if socket.takes_binary else socket.texts
            for text in took[seen:]:
                seen += 1
                await self._take_text(socket, text)
            if socket.close_code is not None:
                self._fail_all("the connection was closed")
                break
            count = len(took)
            await socket.wait(
                lambda count=count: len(socket.texts) + len(socket.binaries) > count, 3600
            )
            if len(socket.texts) == seen and socket.close_code is None:
                await asyncio.sleep(0)

    async def _take_text(self, socket: RawSocket, text: bytes) -> None:
        if len(text) > self.quirks.ws_limit:
            await socket.aclose(1009)
            return
        message: Any = None
        with suppress(ValueError):
            message = json.loads(text)
        if isinstance(message, dict):
            await self._received(message, None)
        elif not self.has("ignores malformed messages"):
            code = -32700 if message is None else -32600
            error = {"code": code, "message": "not a message"}
            body = {"jsonrpc": "2.0", "id": None, "error": error}
            socket.send_text(json.dumps(body).encode())
