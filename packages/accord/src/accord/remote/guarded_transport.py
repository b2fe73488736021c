"""A transport whose frames are checked before the agent receives them.

`GuardedTransport` asks a `FrameGuard`. `McpGuard` decides which MCP servers a remote client may
name: commands, and addresses of this network. `SessionOwnersGuard` gives each principal only its
own sessions of an agent that runs as a process.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import socket
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

from accord.connection.limits import FloodLog
from accord.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    ParseError,
    RequestError,
    ResourceNotFound,
)
from accord.text.excerpt import one_line
from accord.text.lenient_json import NotJson, dumps, is_array, is_object, loads
from accord.transports.base import Frame, NullReceiver, Receiver, Transport

log: logging.Logger = logging.getLogger("accord.remote")


class FrameGuard:
    """Decides about the frames of one connection. By default all pass."""

    def concerns(self, frame: Frame) -> bool:
        """Return whether `refusal` has to see a frame of the client; this must be fast."""
        return False

    async def refusal(self, message: dict[str, Any]) -> RequestError | None:
        """Return why the agent does not receive a message of the client, None if it does."""
        return None

    def outgoing(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return what the client receives instead of these frames of the agent."""
        return frames


class _Refused(Struct, frozen=True):
    """A frame over the size limit, in its place among the frames."""

    limit: int
    head: bytes


class _End(Struct, frozen=True):
    """The end of input, in its place among the frames."""

    error: Exception | None


_Item: TypeAlias = Frame | _Refused | _End


class GuardedTransport(Transport):
    """Passes frames between another transport and its receiver if guards permit it.

    A request that a guard refuses is answered with its error; anything else that it refuses is
    dropped. Frames keep their order: while one is checked, later ones wait and reading pauses.
    """

    def __init__(self, inner: Transport, guards: Sequence[FrameGuard]) -> None:
        self._log = FloodLog(log)
        self.frame_bytes: int = inner.frame_bytes
        self._inner = inner
        self._guards = guards
        self._receiver: Receiver = NullReceiver()
        self._waiting: deque[_Item] = deque()
        self._checking: asyncio.Task[None] | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        await self._inner.start(self)

    def write(self, frames: Sequence[Frame]) -> None:
        for guard in self._guards:
            frames = guard.outgoing(frames)
        self._inner.write(frames)

    @property
    def congested(self) -> bool:
        return self._inner.congested

    def pause_reading(self) -> None:
        self._may_read.clear()
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._may_read.set()
        if self._checking is None:
            self._inner.resume_reading()

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        await self._inner.aclose()

    async def exit_error(self) -> Exception | None:
        return await self._inner.exit_error()

    # The receiver of the inner transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        if self._checking is None and not any(map(self._is_concerned, frames)):
            self._receiver.frames_received(frames)
        else:
            self._add(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        if self._checking is None:
            self._receiver.frame_refused(limit, head)
        else:
            self._add([_Refused(limit, head)])

    def eof_received(self, error: Exception | None) -> None:
        if self._checking is None:
            self._receiver.eof_received(error)
        else:
            self._add([_End(error)])

    def writable(self) -> None:
        self._receiver.writable()

    # Checks.

    def _is_concerned(self, frame: Frame) -> bool:
        if not frame.isascii() and not _is_utf8(frame):
            return True  # decoders differ about it
        return any(guard.concerns(frame) for guard in self._guards)

    def _add(self, items: Sequence[_Item]) -> None:
        self._waiting += items
        if self._checking is None:
            self._inner.pause_reading()
            self._checking = asyncio.create_task(self._check_all(), name="accord check frames")

    async def _check_all(self) -> None:
        while self._waiting:
            item = self._waiting.popleft()
            match item:
                case _Refused(limit, head):
                    self._receiver.frame_refused(limit, head)
                case _End(error):
                    self._receiver.eof_received(error)
                case frame:
                    if not self._is_concerned(frame) or await self._passes(frame):
                        await self._may_read.wait()
                        self._receiver.frames_received([frame])
        self._checking = None
        if self._may_read.is_set():
            self._inner.resume_reading()

    async def _passes(self, frame: Frame) -> bool:
        """Return whether the agent receives a frame; answer a request that it does not."""
        request_id: Any = None
        try:
            message = unambiguous_json(frame)
            if not is_object(message):
                raise InvalidRequest("Expected one JSON object")
            request_id = message.get("id")
            for guard in self._guards:
                if guard.concerns(frame) and (error := await guard.refusal(message)) is not None:
                    raise error
        except RequestError as error:
            text = "! a message of the client was refused with %d"
            self._log.log(logging.INFO, text, error.code, kind=error.code)
            if request_id is not None or isinstance(error, ParseError | InvalidRequest):
                self._answer(request_id, error)
            return False
        except Exception as exc:  # noqa: BLE001  # a defect: nothing unchecked may pass
            self._log.exception("! a message of the client could not be checked", exc=exc)
            self._answer(request_id, InternalError())
            return False
        return True

    def _answer(self, request_id: Any, error: RequestError) -> None:
        body: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        shown = request_id if type(request_id) in (int, str) else None
        self._inner.write([dumps({"jsonrpc": "2.0", "id": shown, "error": body})])


def _is_utf8(frame: Frame) -> bool:
    try:
        frame.decode()
    except UnicodeDecodeError:
        return False
    return True


def unambiguous_json(text: Frame) -> Any:
    """Return the value of a JSON text that all decoders read alike.

    Raise `ParseError` for other text, and `InvalidRequest` for an object with two equal keys: of
    these, one decoder keeps the first, and another one the last.
    """
    try:
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        raise ParseError("The message is not JSON that can be checked") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidRequest("An object of the message has two equal keys")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Decides which MCP servers a remote client may name: commands, and addresses of this network.

RESOLVE_S = 5.0  # for the addresses of a host name
_RESOLVING = 4  # names at a time: a lookup cannot be cancelled and keeps a thread
_MAX_SERVERS = 100  # in one message
_MAX_URL = 8192  # characters
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# What all programs read alike: other forms name one host to one program, and another to the next.
_PLAIN_URL = re.compile(
    r"(?P<scheme>https?)://([\w.~%!$&'()*+,;=:-]*@)?"
    r"(?P<host>[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|\[[0-9a-f.]*:[0-9a-f:.]*\])(:(?P<port>[0-9]{0,5}))?"
    r"([/?#][!-\[\]-~]*)?",
    re.ASCII | re.IGNORECASE,
)
_KINDS = ("stdio", "private")
_KEY = "mcpservers"
# Beginnings of spellings that a decoder may read as the key: any case, escapes, a long s,
# and encodings in which every second byte is zero.
_OTHER_SPELLINGS = (b"\\u", "ſ".encode(), b"\0")


class McpPolicy(Struct, frozen=True):
    """The MCP servers that a client may name in addition to those with public addresses.

    `commands`: servers that the agent starts. `private`: all addresses, also those of this
    machine and its networks. `hosts`: these names and addresses, each with its port if it has one.
    """

    commands: bool = False
    private: bool = False
    hosts: tuple[tuple[str, int | None], ...] = ()

    @staticmethod
    def of(allowed: Sequence[str]) -> McpPolicy:
        """Return the policy that allows `stdio`, `private` and hosts; raise `ValueError`."""
        hosts = tuple(_host_and_port(name) for name in allowed if name not in _KINDS)
        return McpPolicy("stdio" in allowed, "private" in allowed, hosts)

    @property
    def allows_all(self) -> bool:
        """Whether the policy refuses nothing."""
        return self.commands and self.private

    def allows_host(self, host: str, port: int) -> bool:
        """Return whether a host is allowed by its name."""
        host = _without_dot(host)
        return any(host == name and given in (None, port) for name, given in self.hosts)


class McpGuard(FrameGuard):
    """Refuses messages that name MCP servers which the policy does not allow (R-SEC-09).

    The entries are found by their key, at any depth: agents accept them in `_meta`, too.
    """

    def __init__(self, policy: McpPolicy) -> None:
        self._policy = policy
        self._resolving = asyncio.Semaphore(_RESOLVING)

    def concerns(self, frame: Frame) -> bool:
        return _KEY.encode() in frame.lower() or any(other in frame for other in _OTHER_SPELLINGS)

    async def refusal(self, message: dict[str, Any]) -> RequestError | None:
        if not any(key.casefold() == "method" for key in message):
            return None  # a response
        for number, (name, entry) in enumerate(_entries(message)):
            if number == _MAX_SERVERS:
                return InvalidParams(f"More than {_MAX_SERVERS} MCP servers are not allowed")
            if (why := await self._objection(entry)) is not None:
                text = f"The MCP server {one_line(name, 100)!r} is not allowed: {why}"
                return InvalidParams(text, data={"mcpServer": one_line(name, 100)})
        return None

    async def _objection(self, entry: Any) -> str | None:
        """Return why a server is not allowed."""
        if not is_object(entry):
            return None  # the agent refuses it
        fields = [(key.casefold(), value) for key, value in entry.items()]
        if not self._policy.commands and any(key == "command" for key, _ in fields):
            return "this server starts no commands for remote clients (allow_mcp: stdio)"
        if not self._policy.private:
            for key, value in fields:
                if key == "url" and (why := await self._objection_to_url(value)) is not None:
                    return why
        return None

    async def _objection_to_url(self, url: Any) -> str | None:
        is_text = isinstance(url, str) and len(url) <= _MAX_URL
        found = _PLAIN_URL.fullmatch(url) if is_text else None
        if found is None:
            return "its URL is not a plain http or https address"
        scheme, host, port = found["scheme"].lower(), found["host"], found["port"]
        number = int(port) if port else 443 if scheme == "https" else 80
        if self._policy.allows_host(host.strip("[]"), number):
            return None
        if number < 65536 and await self._is_public(host.strip("[]"), number):
            return None
        return "its address is private or unknown (allow_mcp: private, or its HOST)"

    async def _is_public(self, host: str, port: int) -> bool:
        """Return whether all addresses of a host are public; an unknown host has none."""
        try:
            async with asyncio.timeout(RESOLVE_S), self._resolving:
                found = await asyncio.get_running_loop().getaddrinfo(
                    host, port, type=socket.SOCK_STREAM
                )
        except (OSError, UnicodeError, TimeoutError):
            return False
        return bool(found) and all(_is_public(str(address[4][0])) for address in found)


def _entries(message: Any) -> Generator[tuple[str, Any]]:
    """Yield the name and the content of each MCP server in a message, at any depth."""
    values = [message]
    while values:
        value = values.pop()
        if is_object(value):
            for key, inner in value.items():
                if key.casefold() == _KEY:
                    yield from _named(inner)
            values += value.values()
        elif is_array(value):
            values += value


def _named(servers: Any) -> Generator[tuple[str, Any]]:
    """Yield the servers of a list, or of an object by their names."""
    if is_object(servers):
        yield from servers.items()
    elif is_array(servers):
        for server in servers:
            name = server.get("name") if is_object(server) else None
            yield name if isinstance(name, str) else "", server


def _is_public(address: str) -> bool:
    """Return whether an IP address is outside of all networks with a special purpose."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        ip = inner or ip
    return ip.is_global and not ip.is_multicast


def _without_dot(host: str) -> str:
    return host.lower().removesuffix(".")


def _host_and_port(name: str) -> tuple[str, int | None]:
    with suppress(ValueError):
        parts = urlsplit(f"//{name}")
        if parts.hostname and parts.netloc == name and "@" not in name:
            return _without_dot(parts.hostname), parts.port
    raise ValueError(
        f"allow_mcp: expected stdio, private or HOST[:PORT], got {one_line(name, 100)!r}"
    )


# Gives each principal only its own sessions of an agent that runs as a process.

_MAX_SESSIONS = 100_000  # the oldest are forgotten
_MAX_REQUESTS = 1000  # of one connection that are to open or to list sessions
_OPENING = frozenset({"session/new", "session/fork"})
_LISTING = "session/list"
# Also beginnings of other spellings of a key, see `McpGuard`.
_SIGNS = (b"session", b"\\u", "ſ".encode(), b"\0")


class _Update(Struct, rename="camel"):
    session_id: str | UnsetType = UNSET


class _Params(Struct, rename="camel"):
    session_id: str | UnsetType = UNSET
    update: _Update | UnsetType = UNSET


class _Sent(Struct):
    """What counts of a message of the agent."""

    id: int | str | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: _Params | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Sent).decode


class SessionOwners:
    """Which principal a session belongs to: the one that created it.

    The table is in memory: after a restart, earlier sessions cannot be used.
    """

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def add(self, session_id: str, principal: str) -> None:
        """Record the owner of a new session."""
        self._owners.setdefault(session_id, principal)
        if len(self._owners) > _MAX_SESSIONS:
            del self._owners[next(iter(self._owners))]

    def owner(self, session_id: str) -> str | None:
        """Return the principal that a session belongs to."""
        return self._owners.get(session_id)


class SessionOwnersGuard(FrameGuard):
    """Refuses messages that name sessions of others, and removes these from lists (R-SEC-05).

    A client also uses the sessions that the agent names in its messages to it, such as subagents.
    """

    def __init__(self, owners: SessionOwners, principal: str) -> None:
        self._owners = owners
        self._principal = principal
        self._announced: set[str] = set()
        self._opening: set[int | str] = set()  # requests of the client
        self._listing: set[int | str] = set()

    def concerns(self, frame: Frame) -> bool:
        lower = frame.lower()
        return any(sign in lower for sign in _SIGNS)

    async def refusal(self, message: dict[str, Any]) -> RequestError | None:
        keys = {key.casefold(): key for key in message}
        if "method" not in keys:
            return None  # a response
        if len(keys) < len(message) or any(key != given for key, given in keys.items()):
            return InvalidRequest("A key of the message has an unusual spelling")
        params = message.get("params")
        for key, value in params.items() if is_object(params) else ():
            if key.casefold() == "sessionid" and not self._may_use(value):
                return ResourceNotFound(data={"sessionId": value})
        self._expect(message["method"], message.get("id"))
        if len(self._opening) + len(self._listing) > _MAX_REQUESTS:
            return InvalidRequest("Too many requests without a response")
        return None

    def _expect(self, method: Any, request_id: Any) -> None:
        """Remember a request whose response names sessions."""
        if type(request_id) in (int, str):
            if method in _OPENING:
                self._opening.add(request_id)
            elif method == _LISTING:
                self._listing.add(request_id)

    def _may_use(self, session_id: Any) -> bool:
        if not isinstance(session_id, str):
            return True  # the agent refuses it
        return session_id in self._announced or self._owners.owner(session_id) == self._principal

    def outgoing(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        return [self._outgoing(frame) for frame in frames]

    def _outgoing(self, frame: Frame) -> Frame:
        try:
            sent = _decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return frame
        if sent.method is not UNSET:
            self._announce(sent.params)
        elif sent.id in self._opening:
            self._opening.discard(sent.id)
            self._opened(frame)
        elif sent.id in self._listing:
            self._listing.discard(sent.id)
            return self._own_only(frame)
        return frame

    def _announce(self, params: _Params | UnsetType) -> None:
        if params is UNSET or len(self._announced) > _MAX_SESSIONS:
            return
        if params.session_id is not UNSET:
            self._announced.add(params.session_id)
        if params.update is not UNSET and params.update.session_id is not UNSET:
            self._announced.add(params.update.session_id)

    def _opened(self, frame: Frame) -> None:
        result = _result_of(frame)
        session_id = result.get("sessionId")
        if isinstance(session_id, str):
            self._owners.add(session_id, self._principal)

    def _own_only(self, frame: Frame) -> Frame:
        """Return a list of sessions without those of others."""
        message = _message_of(frame)
        result = message.get("result")
        if not is_object(result):
            return frame  # an error
        sessions = result.get("sessions")
        own = [
            session
            for session in (sessions if is_array(sessions) else ())
            if is_object(session) and self._may_use(session.get("sessionId", ""))
        ]
        return dumps({**message, "result": {**result, "sessions": own}})


def _message_of(frame: Frame) -> dict[str, Any]:
    try:
        message = loads(frame)
    except NotJson:
        return {}
    return message if is_object(message) else {}


def _result_of(frame: Frame) -> dict[str, Any]:
    result = _message_of(frame).get("result")
    return result if is_object(result) else {}
