"""Starts an agent, or takes a way to one, and opens sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import UNSET

from accord.client.agent_adapter import (
    AuthMethod,
    Dialect,
    Opened,
    SessionListing,
    SessionStatus,
    Setup,
)
from accord.client.elicitation import OnForm, OnUrl
from accord.client.files import Files, FileServer
from accord.client.permissions import Policy
from accord.client.services import Desk, Extension
from accord.client.session import ClientSession
from accord.client.terminals import TerminalServer
from accord.connection.connection import Observer
from accord.connection.routes import Limits
from accord.errors import ConnectionClosed
from accord.roles import handshake
from accord.text.excerpt import excerpt
from accord.transports.base import Transport, TransportFactory
from accord.transports.process import argv_of, process
from accord.types.auth import LoginStatus, Provider
from accord.types.awaited import must_enter
from accord.types.mcp import McpServer
from accord.types.session import Info, SystemPrompt
from accord.version import ProtocolVersion, __version__

__all__ = ("Command", "ConnectedAgent", "connect")

# A command line, its words, or any other way to an agent.
Command: TypeAlias = str | Sequence[str] | Transport | TransportFactory
_StrPath: TypeAlias = str | os.PathLike[str]


@must_enter("accord.connect(…) is not awaited: write `async with accord.connect(…) as agent:`")
@asynccontextmanager
async def connect(
    command: Command,
    *,
    permissions: Policy | Sequence[Policy] | None = None,
    files: Files = None,
    terminals: bool = False,
    on_form: OnForm | None = None,
    on_url: OnUrl | None = None,
    on_login: Callable[[LoginStatus], None] | None = None,
    extensions: Mapping[str, Extension] | None = None,
    unstable: bool = False,
    terminal_login: bool = False,
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
    `on_form` and `on_url` ask the user on behalf of the agent; `on_login` is told when somebody
    has logged in to it, or out, which agents may tell only those who have called `auth_status`.
    `extensions` serve requests and notifications of the agent's own by their names, which begin
    with an underscore. With `unstable` an agent of version 1 is told
    that subagents and several plans are welcome, as the unstable protocol has it. With
    `terminal_login` the agent may offer logins that run its own command at the user's terminal:
    set it only if you can do that (`AuthMethod.terminal`).

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
        on_login=on_login,
        extensions=extensions,
        unstable=unstable,
        terminal_login=terminal_login,
    )
    info = info or Info("accord", __version__)

    # What a version needs is imported when it is spoken.
    def make_v1() -> Any:
        from accord.client.v1.role import ClientV1

        return ClientV1(desk, info)

    def make_v2() -> Any:
        from accord.client.v2.role import ClientV2

        return ClientV2(desk, info)

    made: dict[ProtocolVersion, Callable[[], Any]] = {1: make_v1, 2: make_v2}
    clients = [handshake.LazyRole(version, made[version]) for version in set(versions)]
    async with handshake.connect(
        way,
        *clients,
        limits=limits,
        observers=observers,
        initialize_timeout_s=initialize_timeout_s,
    ) as wire:
        dialect = _dialect(wire)
        wire.connection.flow.reads_others = desk.reads_others
        watching = asyncio.create_task(_watch(wire.connection, desk), name="accord watch")
        try:
            yield ConnectedAgent(dialect, desk)
        finally:
            watching.cancel()
            desk.end(ConnectionClosed("The connection was closed"))
            await desk.aclose()


def _dialect(wire: Any) -> Dialect:
    if wire.kit.version == 1:
        from accord.client.v1.agent_adapter import DialectV1

        return DialectV1(wire)
    from accord.client.v2.agent_adapter import DialectV2

    return DialectV2(wire)


async def _watch(connection: Any, desk: Desk) -> None:
    desk.end(await connection.wait_ended() or ConnectionClosed("The connection was closed"))


def _way(command: Command, *, cwd: _StrPath | None, **given: Any) -> Transport | TransportFactory:
    if isinstance(command, Transport):
        return command
    if callable(command) and not (isinstance(command, type) and hasattr(command, "prompt")):
        return command
    if not isinstance(command, str | os.PathLike | Sequence):
        raise TypeError(
            "connect(command=…): expected the command that starts an agent, a transport, or a "
            f"function that makes one, got {excerpt(repr(command))}; an agent in this process is "
            "reached through a transport: `accord.serve(agent, …)` serves its other end"
        )
    return process(*argv_of(command), cwd=cwd, **given)


class ConnectedAgent:
    """An agent that is ready for sessions."""

    def __init__(self, dialect: Dialect, desk: Desk) -> None:
        self._dialect = dialect
        self._desk = desk

    def __repr__(self) -> str:
        name = excerpt(self.info.name, 60)
        version = excerpt(self.info.version, 60)
        return f"<ConnectedAgent {name!r} {version!r}, protocol version {self.version}>"

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
        system_prompt: str | SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a new session that works in `cwd`, and in `roots` where the agent can do that."""
        setup = _setup(cwd, roots, mcp_servers, system_prompt)
        return self._session(await self._dialect.new_session(setup), setup)

    async def load_session(
        self,
        session_id: str,
        cwd: _StrPath = ".",
        *,
        roots: Iterable[_StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
        system_prompt: str | SystemPrompt | None = None,
        replay: bool = True,
    ) -> ClientSession:
        """Open a stored session, with its history in the transcript unless `replay` is false.

        Without `replay`, history that an agent sends nevertheless is dropped: one that can only
        load sessions always replays.
        """
        setup = _setup(cwd, roots, mcp_servers, system_prompt)
        # The replay comes before the answer, and afresh.
        feed = self._desk.open(session_id, setup, self._dialect.read, afresh=True)
        feed.drops_history = not replay
        try:
            opened = await self._dialect.load_session(
                session_id, setup, replay=replay, opened=feed.is_live
            )
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
        system_prompt: str | SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a new session that begins as a copy of another, which stays as it is."""
        setup = _setup(cwd, roots, mcp_servers, system_prompt)
        return self._session(await self._dialect.fork_session(session_id, setup), setup)

    async def list_sessions(
        self,
        cwd: _StrPath | None = None,
        *,
        archived: Literal["exclude", "include", "only"] | None = None,
    ) -> AsyncIterator[SessionListing]:
        """Iterate over the stored sessions, those of one directory or all; pages are asked for.

        Archived ones are left out, unless `archived` wants them too, or no others.
        """
        where = None if cwd is None else _absolute(cwd)
        cursor: str | None = None
        while True:
            page = await self._dialect.list_sessions(where, cursor, archived)
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

    async def archive_session(self, session_id: str) -> None:
        """Close a session and put it away."""
        await self._dialect.archive_session(session_id)
        await self._desk.leave(session_id)

    async def unarchive_session(self, session_id: str) -> None:
        """Take a session out of the archive; it is not opened by that."""
        await self._dialect.unarchive_session(session_id)

    async def rename_session(self, session_id: str, title: str) -> str:
        """Give a stored session a title; returns it as the agent has stored it."""
        return await self._dialect.rename_session(session_id, title)

    async def session_status(self, session_id: str) -> SessionStatus:
        """Ask whether the agent has a session in memory; it is not opened by that."""
        return await self._dialect.session_status(session_id)

    # Logging in.

    async def authenticate(self, method_id: str) -> None:
        """Log in by a method that the agent does by itself."""
        await self._dialect.authenticate(method_id)

    async def logout(self) -> None:
        """Log out."""
        await self._dialect.logout()

    async def auth_status(self) -> LoginStatus:
        """Ask whether somebody is logged in, and as whom."""
        return await self._dialect.auth_status()

    # Where models come from.

    async def providers(self) -> tuple[Provider, ...]:
        """Return the sources of models that can be configured."""
        return await self._dialect.providers()

    async def set_provider(
        self,
        provider_id: str,
        *,
        api_type: str,
        base_url: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Replace all that is configured of a source of models; `headers` may hold secrets."""
        await self._dialect.set_provider(provider_id, api_type, base_url, headers or {})

    async def disable_provider(self, provider_id: str) -> None:
        """Use a source of models no more."""
        await self._dialect.disable_provider(provider_id)

    # Methods of somebody's own.

    async def call(self, method: str, params: Any = UNSET) -> Any:
        """Call a method whose name begins with an underscore; params and result are plain JSON."""
        return await self.wire.call_extension(method, params)

    async def notify(self, method: str, params: Any = UNSET) -> None:
        """Send a notification whose name begins with an underscore."""
        await self.wire.notify_extension(method, params)

    def _session(self, opened: Opened, setup: Setup) -> ClientSession:
        desk = self._desk
        feed = desk.open(opened.session_id, setup, self._dialect.read)
        session = ClientSession(feed, self._dialect, desk, setup)
        session.adopt(opened)
        return session


def _setup(
    cwd: _StrPath,
    roots: Iterable[_StrPath],
    mcp_servers: Iterable[McpServer],
    system_prompt: str | SystemPrompt | None,
) -> Setup:
    if isinstance(system_prompt, str):
        system_prompt = SystemPrompt((system_prompt,))
    here = _absolute(cwd)
    others = dict.fromkeys(map(_absolute, roots))
    others.pop(here, None)  # R-DIR-11
    return Setup(
        cwd=here,
        roots=tuple(others),
        mcp_servers=tuple(mcp_servers),
        system_prompt=system_prompt,
        real_roots=tuple(map(os.path.realpath, (here, *others))),
    )


def _absolute(path: _StrPath) -> str:
    return str(Path(path).absolute())
