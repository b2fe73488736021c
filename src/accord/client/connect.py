"""Starts an agent, or takes a way to one, and opens sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from accord import router
from accord.client.desk import Desk
from accord.client.dialect import AuthMethod, Dialect, Opened, SessionListing, Setup
from accord.client.elicitation import OnForm, OnUrl
from accord.client.feed import Feed
from accord.client.files import Files, FileServer
from accord.client.on_v1 import ClientV1, DialectV1
from accord.client.on_v2 import ClientV2, DialectV2
from accord.client.permissions import Policy
from accord.client.session import ClientSession
from accord.client.terminals import TerminalServer
from accord.connection import Observer
from accord.errors import ConnectionClosed
from accord.model.mcp import McpServer
from accord.model.session import Info
from accord.routes import Limits
from accord.transports.base import Transport, TransportFactory
from accord.transports.process import argv_of, process
from accord.version import ProtocolVersion, __version__

__all__ = ("Command", "ConnectedAgent", "connect")

# A command line, its words, or any other way to an agent.
Command: TypeAlias = str | Sequence[str] | Transport | TransportFactory
_StrPath: TypeAlias = str | os.PathLike[str]


@asynccontextmanager
async def connect(
    command: Command,
    *,
    permissions: Policy | Sequence[Policy] | None = None,
    files: Files = None,
    terminals: bool = False,
    on_form: OnForm | None = None,
    on_url: OnUrl | None = None,
    info: Info | None = None,
    cwd: _StrPath | None = None,
    env: Mapping[str, str | None] | None = None,
    on_stderr: Callable[[str], None] | None = None,
    on_noise: Callable[[str], None] | None = None,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
    versions: Iterable[ProtocolVersion] = (1, 2),
    initialize_timeout_s: float = 120.0,
) -> AsyncGenerator[ConnectedAgent, None]:
    """Connect to an agent, in the newest version that both speak; end it on leaving.

    What no policy in `permissions` decides is rejected. `files` ("ro" or "rw") and `terminals` let
    agents of version 1 use this machine through us, in the directories of their sessions;
    `on_form` and `on_url` ask the user on behalf of the agent.

    `cwd` and `env` are for the agent's process, as are `on_stderr` and `on_noise`, which are told
    of what it writes to stderr and of lines on its stdout that are not JSON.

    Raises `TransportError` when the agent cannot be reached or started, `UnsupportedVersion` when
    it speaks no version of `versions`, `RequestError` when it refuses, `TimeoutError` when it does
    not answer in time.
    """
    way = _way(command, cwd=cwd, env=env, on_stderr=on_stderr, on_noise=on_noise)
    desk = Desk(
        permissions,
        files=FileServer(files),
        terminals=TerminalServer() if terminals else None,
        on_form=on_form,
        on_url=on_url,
    )
    info = info or Info("accord", __version__)
    spoken = set(versions)
    clients: list[Any] = []
    if 1 in spoken:
        clients.append(ClientV1(desk, info))
    if 2 in spoken:
        clients.append(ClientV2(desk, info))
    async with router.connect(
        way,
        *clients,
        limits=limits,
        observers=observers,
        initialize_timeout_s=initialize_timeout_s,
    ) as wire:
        dialect: Dialect = DialectV1(wire) if wire.kit.version == 1 else DialectV2(wire)
        watching = asyncio.create_task(_watch(wire.connection, desk), name="accord watch")
        try:
            yield ConnectedAgent(dialect, desk)
        finally:
            watching.cancel()
            desk.end(ConnectionClosed("The connection was closed"))
            await desk.aclose()


async def _watch(connection: Any, desk: Desk) -> None:
    desk.end(await connection.wait_ended() or ConnectionClosed("The connection was closed"))


def _way(command: Command, *, cwd: _StrPath | None, **given: Any) -> Transport | TransportFactory:
    if isinstance(command, Transport):
        return command
    if callable(command):
        return command
    return process(*argv_of(command), cwd=cwd, **given)


class ConnectedAgent:
    """An agent that is ready for sessions."""

    def __init__(self, dialect: Dialect, desk: Desk) -> None:
        self._dialect = dialect
        self._desk = desk

    @property
    def wire(self) -> Any:
        """The `RemoteAgent` of the version that is spoken, for everything else."""
        return self._dialect.wire

    @property
    def version(self) -> ProtocolVersion:
        """The version of the protocol that is spoken."""
        return self._dialect.version

    @property
    def info(self) -> Info:
        """What the agent says it is."""
        return self._dialect.info

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The ways to log in."""
        return self._dialect.auth_methods

    def offers(self, call: str) -> bool:
        """Tell whether the agent serves a call: `load_session`, `list_sessions` and the like."""
        return self._dialect.offers(call)

    def takes(self, kind: str) -> bool:
        """Tell whether prompts may have this: `image`, `audio` or `resource`."""
        return self._dialect.takes(kind)

    # Sessions.

    async def new_session(
        self,
        cwd: _StrPath = ".",
        *,
        roots: Iterable[_StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
    ) -> ClientSession:
        """Open a new session that works in `cwd`, and in `roots` where the agent can do that."""
        setup = _setup(cwd, roots, mcp_servers)
        return self._session(await self._dialect.new_session(setup), setup)

    async def load_session(
        self,
        session_id: str,
        cwd: _StrPath = ".",
        *,
        roots: Iterable[_StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
        replay: bool = True,
    ) -> ClientSession:
        """Open a stored session, with its history in the transcript unless `replay` is false."""
        setup = _setup(cwd, roots, mcp_servers)
        # The replay comes before the answer, and afresh.
        feed = self._desk.feeds[session_id] = Feed(session_id, self._dialect.read)
        self._desk.setups[session_id] = setup
        try:
            opened = await self._dialect.load_session(session_id, setup, replay=replay)
        except BaseException:
            if self._desk.feeds.get(session_id) is feed:
                self._desk.forget(session_id)
            raise
        return self._session(opened, setup)

    async def fork_session(
        self,
        session_id: str,
        cwd: _StrPath = ".",
        *,
        roots: Iterable[_StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
    ) -> ClientSession:
        """Open a new session that begins as a copy of another, which stays as it is."""
        setup = _setup(cwd, roots, mcp_servers)
        return self._session(await self._dialect.fork_session(session_id, setup), setup)

    async def list_sessions(self, cwd: _StrPath | None = None) -> AsyncIterator[SessionListing]:
        """Iterate over the stored sessions, those of one directory or all; pages are asked for."""
        where = None if cwd is None else _absolute(cwd)
        cursor: str | None = None
        while True:
            page = await self._dialect.list_sessions(where, cursor)
            for listing in page.sessions:
                yield listing
            if page.next_cursor is None or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    async def close_session(self, session_id: str) -> None:
        """Let the agent stop what runs in a session and free it."""
        await self._dialect.close_session(session_id)
        await self._desk.leave(session_id)

    async def delete_session(self, session_id: str) -> None:
        """Delete a stored session for good."""
        await self._dialect.delete_session(session_id)
        await self._desk.leave(session_id)

    # Logging in.

    async def authenticate(self, method_id: str) -> None:
        """Log in by a method that the agent does by itself."""
        await self._dialect.authenticate(method_id)

    async def logout(self) -> None:
        """Log out."""
        await self._dialect.logout()

    def _session(self, opened: Opened, setup: Setup) -> ClientSession:
        desk = self._desk
        feed = desk.feed(opened.session_id, self._dialect.read)
        desk.feeds[opened.session_id] = feed
        desk.setups[opened.session_id] = setup
        session = ClientSession(feed, self._dialect, desk, setup)
        session.adopt(opened)
        return session


def _setup(cwd: _StrPath, roots: Iterable[_StrPath], mcp_servers: Iterable[McpServer]) -> Setup:
    return Setup(
        cwd=_absolute(cwd),
        roots=tuple(map(_absolute, roots)),
        mcp_servers=tuple(mcp_servers),
    )


def _absolute(path: _StrPath) -> str:
    return str(Path(path).absolute())
