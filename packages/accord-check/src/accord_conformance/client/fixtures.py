"""What runs against clients use: values in the shape of each version, sessions, a web server."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from accord.version import __version__

if TYPE_CHECKING:
    from typing import Self

Json: TypeAlias = dict[str, Any]

COMMAND = "accord-check"
# A key of a future version, in capabilities and elsewhere.
ABSENT_METHOD = "_accord/probe"
_UNKNOWN_KEYS: Json = {"accordUnheardOf": {"of": ["a", "later", "version"]}}
_INFO = {"name": "accord-check", "title": "Accord's conformance kit", "version": __version__}
ELSEWHERE = "/accord-check/elsewhere"  # does not exist
LOGIN, BROKEN_LOGIN = "check", "check-broken"
_LOGINS_1: list[Json] = [
    {"id": LOGIN, "name": "Log in to the check"},
    {"id": BROKEN_LOGIN, "name": "Malformed", "type": "terminal", "args": "none"},
]
_LOGINS_2: list[Json] = [
    {"type": "agent", "methodId": LOGIN, "name": "Log in to the check"},
    {"type": "_accord_later", "methodId": "later", "name": "In a way of a future version"},
]


def initialize_result(version: int, *, login: bool = False) -> Json:
    """Return the result of `initialize`, with unknown capabilities."""
    methods = (_LOGINS_1 if version == 1 else _LOGINS_2) if login else []
    if version == 1:
        sessions: Json = {"list": {}, "resume": {}, "close": {}, "delete": {}, "status": {}}
        offers: Json = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True, **_UNKNOWN_KEYS},
            "mcpCapabilities": {"http": False, "sse": False, "acp": True},
            "sessionCapabilities": {**sessions, "systemPrompt": {}, **_UNKNOWN_KEYS},
            "auth": {"status": {}},
            "providers": {},
            **_UNKNOWN_KEYS,
        }
        return {
            "protocolVersion": version,
            "agentCapabilities": offers,
            "agentInfo": _INFO,
            "authMethods": methods,
            **_UNKNOWN_KEYS,
        }
    sessions = {
        "prompt": {"image": {}, "embeddedContext": {}, **_UNKNOWN_KEYS},
        "mcp": {"stdio": {}, "acp": {}},
        "delete": {},
        "status": {},
        "systemPrompt": {},
        **_UNKNOWN_KEYS,
    }
    others: Json = {"auth": {"status": {}}, "providers": {}}
    return {
        "protocolVersion": version,
        "capabilities": {"session": sessions, **others, **_UNKNOWN_KEYS},
        "info": _INFO,
        "authMethods": methods,
        **_UNKNOWN_KEYS,
    }


def config_options(version: int, mode: str, *more: Json) -> list[Json]:
    """Return the config options of a session, followed by `more`."""
    ident = "id" if version == 1 else "configId"
    modes = [{"value": "kind", "name": "Kind"}, {"value": "strict", "name": "Strict"}]
    choice = {
        ident: "mode",
        "type": "select",
        "name": "Mode",
        "category": "mode",
        "currentValue": mode,
        "options": modes,
    }
    return [choice, *more]


def session_setup(version: int, mode: str) -> Json:
    """Return the members that every session result has; v1 has the modes twice."""
    said: Json = {"configOptions": config_options(version, mode)}
    if version == 1:
        available = [{"id": "kind", "name": "Kind"}, {"id": "strict", "name": "Strict"}]
        said["modes"] = {"currentModeId": mode, "availableModes": available}
    return said


def commands(version: int) -> list[Json]:
    """Return the only slash command."""
    field: Json = {"hint": "all, list, or a scenario"}
    if version == 2:
        field["type"] = "text"
    about = "Run scenarios that test this client"
    return [{"name": COMMAND, "description": about, "input": field}]


def text_block(words: str) -> Json:
    """Return a block of text."""
    return {"type": "text", "text": words}


# The end of every history of version 2; the final message is C and D.
REPLAYED_ID = "replayed"
REPLAYED_UPDATES: list[Json] = [
    {
        "sessionUpdate": kind,
        "messageId": REPLAYED_ID,
        "content": text_block(word) if chunk else [text_block(word)],
    }
    for word, kind, chunk in (
        ("A", "agent_message", False),
        ("B", "agent_message_chunk", True),
        ("C", "agent_message", False),
        ("D", "agent_message_chunk", True),
    )
]


# The sessions that a client under test opens, and its prompts in them.


class ClientOpenedSession(Struct, eq=False):
    """A session that the client opened; `sent_updates` are replayed when it is loaded."""

    id: str
    cwd: str
    additional_directories: list[str] = field(default_factory=list[str])
    mode: str = "kind"
    sent_updates: list[Json] = field(default_factory=list[Json])
    cancels: int = 0
    # Set when its first updates are sent.
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def directories(self) -> list[str]:
        """The directories in which the session may use files."""
        return [self.cwd, *self.additional_directories]


class ActivePrompt(Struct, eq=False):
    """A prompt in progress; `text` is what the user wrote."""

    session: ClientOpenedSession
    text: str
    cancels: int  # of the session, when the prompt arrived


# A web server that no client should visit; it records requests.


class WebServer:
    """Listens on the loopback address while entered."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self._came = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def address(self) -> str:
        """The URL, without a slash at the end."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def wait_for_visits(self, *, within_s: float) -> list[str]:
        """Return the requested paths; wait for the first one."""
        try:
            async with asyncio.timeout(within_s):
                await self._came.wait()
        except TimeoutError:
            pass
        return self.visits

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                first = await reader.readline()
                words = first.decode("latin-1").split()
                self.visits.append(words[1] if len(words) > 1 else "nothing")
                self._came.set()
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (OSError, TimeoutError):
            pass
        finally:
            writer.close()
