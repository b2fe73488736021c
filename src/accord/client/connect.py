"""Starts an agent, or takes a way to one, and opens sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import UNSET

from accord import roles
from accord.client.agent_adapter import (
    AgentAdapter,
    AuthMethod,
    OpenedSession,
    SessionInfo,
    SessionSetup,
    SessionStatus,
)
from accord.client.elicitation import OnElicitForm, OnElicitUrl
from accord.client.files import ClientFiles, Files
from accord.client.permissions import Policy
from accord.client.services import ClientServices, Extension
from accord.client.session import ClientSession
from accord.client.terminals import ClientTerminals
from accord.connection.connection import Observer
from accord.connection.limits import Limits
from accord.errors import ConnectionClosed
from accord.text.excerpt import excerpt
from accord.transports.base import Transport, TransportFactory
from accord.transports.process import argv_of, process
from accord.transports.registry import is_url, transport_for_url
from accord.types.auth import AuthStatus, ProviderInfo
from accord.types.awaited import must_enter
from accord.types.mcp import McpServer
from accord.types.session import Implementation, SystemPrompt
from accord.version import ProtocolVersion, __version__

__all__ = ("AgentCommand", "ConnectedAgent", "connect")

# A command line, its words, or any other way to an agent.
AgentCommand: TypeAlias = str | Sequence[str] | Transport | TransportFactory
_StrPath: TypeAlias = str | os.PathLike[str]


@must_enter("accord.connect(…) is not awaited: write `async with accord.connect(…) as agent:`")
@asynccontextmanager
async def connect(
    command: AgentCommand,
    *,
    permissions: Policy | Sequence[Policy] | None = None,
    files: Files = None,
    terminals: bool = False,
    on_elicit_form: OnElicitForm | None = None,
    on_elicit_url: OnElicitUrl | None = None,
    on_auth_status: Callable[[AuthStatus], None] | None = None,
    extensions: Mapping[str, Extension] | None = None,
    unstable: bool = False,
    terminal_login: bool = False,
    client_info: Implementation | None = None,
    cwd: _StrPath | None = None,
    env: Mapping[str, str | None] | None = None,
    on_stderr: Callable[[str], None] | None = None,
    on_stdout_noise: Callable[[str], None] | None = None,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
    versions: Iterable[ProtocolVersion] = (1, 2),
    initialize_timeout_s: float = 120.0,
) -> AsyncGenerator[ConnectedAgent, None]:
    """Connect to an agent, in the newest version that both speak; end it on leaving.

    `command` starts the agent. It can also be a transport, a function that returns one, or a URL
    whose scheme was registered with `accord.transports.registry.register_scheme`.

    What no policy in `permissions` decides is rejected. `files` ("ro" or "rw") and `terminals` let
    agents of version 1 use this machine through us, in the directories of their sessions;
    `on_elicit_form` and `on_elicit_url` ask the user on behalf of the agent;
    `on_auth_status` is told when somebody
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
    way = _transport_for(command, cwd=cwd, env=env, on_stderr=on_stderr, on_noise=on_stdout_noise)
    desk = ClientServices(
        permissions,
        files=ClientFiles(files),
        terminals=ClientTerminals() if terminals else None,
        on_elicit_form=on_elicit_form,
        on_elicit_url=on_elicit_url,
        on_auth_status=on_auth_status,
        extensions=extensions,
        unstable=unstable,
        terminal_login=terminal_login,
    )
    client_info = client_info or Implementation("accord", __version__)

    # What a version needs is imported when it is spoken.
    def make_v1() -> Any:
        from accord.client.v1.role import ClientRoleV1

        return ClientRoleV1(desk, client_info)

    def make_v2() -> Any:
        from accord.client.v2.role import ClientRoleV2

        return ClientRoleV2(desk, client_info)

    made: dict[ProtocolVersion, Callable[[], Any]] = {1: make_v1, 2: make_v2}
    clients = [roles.LazyRole(version, made[version]) for version in set(versions)]
    async with roles.connect(
        way,
        *clients,
        limits=limits,
        observers=observers,
        initialize_timeout_s=initialize_timeout_s,
    ) as wire:
        dialect = _adapter_for(wire)
        wire.connection.flow.reads_others = desk.reads_others
        watching = asyncio.create_task(_watch(wire.connection, desk), name="accord watch")
        try:
            yield ConnectedAgent(dialect, desk)
        finally:
            watching.cancel()
            desk.end(ConnectionClosed("The connection was closed"))
            await desk.aclose()


def _adapter_for(wire: Any) -> AgentAdapter:
    if wire.spec.version == 1:
        from accord.client.v1.agent_adapter import AgentAdapterV1

        return AgentAdapterV1(wire)
    from accord.client.v2.agent_adapter import AgentAdapterV2

    return AgentAdapterV2(wire)


async def _watch(connection: Any, desk: ClientServices) -> None:
    desk.end(await connection.wait_ended() or ConnectionClosed("The connection was closed"))


def _transport_for(
    command: AgentCommand, *, cwd: _StrPath | None, **given: Any
) -> Transport | TransportFactory:
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
    if isinstance(command, str) and is_url(command):
        return transport_for_url(command)
    return process(*argv_of(command), cwd=cwd, **given)


class ConnectedAgent:
    """An agent that is ready for sessions."""

    def __init__(self, adapter: AgentAdapter, services: ClientServices) -> None:
        self._adapter = adapter
        self._services = services

    def __repr__(self) -> str:
        name = excerpt(self.info.name, 60)
        version = excerpt(self.info.version, 60)
        return f"<ConnectedAgent {name!r} {version!r}, protocol version {self.version}>"

    @property
    def remote(self) -> Any:
        """The `RemoteAgent` of the version that is spoken, for everything else."""
        return self._adapter.remote

    @property
    def version(self) -> ProtocolVersion:
        """The version of the protocol that is spoken."""
        return self._adapter.version

    @property
    def info(self) -> Implementation:
        """What the agent says it is."""
        return self._adapter.info

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The ways to log in."""
        return self._adapter.auth_methods

    def supports(self, method: str) -> bool:
        """Tell whether the agent serves a call: `load_session`, `list_sessions` and the like."""
        return self._adapter.supports(method)

    def supports_content(self, kind: str) -> bool:
        """Tell whether prompts may have this: `image`, `audio` or `resource`."""
        return self._adapter.supports_content(kind)

    # Sessions.

    async def new_session(
        self,
        cwd: _StrPath = ".",
        *,
        additional_directories: Iterable[_StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
        system_prompt: str | SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a new session that works in `cwd`, and in `roots` where the agent can do that."""
        setup = _setup(cwd, additional_directories, mcp_servers, system_prompt)
        return self._session(await self._adapter.new_session(setup), setup)

    async def load_session(
        self,
        session_id: str,
        cwd: _StrPath = ".",
        *,
        additional_directories: Iterable[_StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
        system_prompt: str | SystemPrompt | None = None,
        replay: bool = True,
    ) -> ClientSession:
        """Open a stored session, with its history in the transcript unless `replay` is false.

        Without `replay`, history that an agent sends nevertheless is dropped: one that can only
        load sessions always replays.
        """
        setup = _setup(cwd, additional_directories, mcp_servers, system_prompt)
        # The replay comes before the answer, and afresh.
        feed = self._services.open(
            session_id, setup, self._adapter.events_from_update, replaces=True
        )
        feed.drops_history = not replay
        try:
            opened = await self._adapter.load_session(
                session_id, setup, replay=replay, opened=feed.end_replay
            )
        except BaseException:
            if self._services.event_streams.get(session_id) is feed:
                self._services.drop_session(session_id)
            raise
        return self._session(opened, setup)

    async def fork_session(
        self,
        session_id: str,
        cwd: _StrPath = ".",
        *,
        additional_directories: Iterable[_StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
        system_prompt: str | SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a new session that begins as a copy of another, which stays as it is."""
        setup = _setup(cwd, additional_directories, mcp_servers, system_prompt)
        return self._session(await self._adapter.fork_session(session_id, setup), setup)

    async def list_sessions(
        self,
        cwd: _StrPath | None = None,
        *,
        archived: Literal["exclude", "include", "only"] | None = None,
    ) -> AsyncIterator[SessionInfo]:
        """Iterate over the stored sessions, those of one directory or all; pages are asked for.

        Archived ones are left out, unless `archived` wants them too, or no others.
        """
        where = None if cwd is None else _absolute(cwd)
        cursor: str | None = None
        while True:
            page = await self._adapter.list_sessions(where, cursor, archived)
            for listing in page.sessions:
                yield listing
            if page.next_cursor is None or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    async def close_session(self, session_id: str) -> None:
        """Let the agent stop what runs in a session and free it."""
        await self._adapter.close_session(session_id)
        await self._services.close_session(session_id)

    async def delete_session(self, session_id: str) -> None:
        """Delete a stored session for good."""
        await self._adapter.delete_session(session_id)
        await self._services.close_session(session_id)

    async def archive_session(self, session_id: str) -> None:
        """Close a session and put it away."""
        await self._adapter.archive_session(session_id)
        await self._services.close_session(session_id)

    async def unarchive_session(self, session_id: str) -> None:
        """Take a session out of the archive; it is not opened by that."""
        await self._adapter.unarchive_session(session_id)

    async def set_session_title(self, session_id: str, title: str) -> str:
        """Give a stored session a title; returns it as the agent has stored it."""
        return await self._adapter.set_session_title(session_id, title)

    async def session_status(self, session_id: str) -> SessionStatus:
        """Ask whether the agent has a session in memory; it is not opened by that."""
        return await self._adapter.session_status(session_id)

    # Logging in.

    async def authenticate(self, method_id: str) -> None:
        """Log in by a method that the agent does by itself."""
        await self._adapter.authenticate(method_id)

    async def logout(self) -> None:
        """Log out."""
        await self._adapter.logout()

    async def auth_status(self) -> AuthStatus:
        """Ask whether somebody is logged in, and as whom."""
        return await self._adapter.auth_status()

    # Where models come from.

    async def providers(self) -> tuple[ProviderInfo, ...]:
        """Return the sources of models that can be configured."""
        return await self._adapter.providers()

    async def set_provider(
        self,
        provider_id: str,
        *,
        api_type: str,
        base_url: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Replace all that is configured of a source of models; `headers` may hold secrets."""
        await self._adapter.set_provider(provider_id, api_type, base_url, headers or {})

    async def disable_provider(self, provider_id: str) -> None:
        """Use a source of models no more."""
        await self._adapter.disable_provider(provider_id)

    # Methods of somebody's own.

    async def call_extension(self, method: str, params: Any = UNSET) -> Any:
        """Call a method whose name begins with an underscore; params and result are plain JSON."""
        return await self.remote.call_extension(method, params)

    async def notify_extension(self, method: str, params: Any = UNSET) -> None:
        """Send a notification whose name begins with an underscore."""
        await self.remote.notify_extension(method, params)

    def _session(self, opened: OpenedSession, setup: SessionSetup) -> ClientSession:
        desk = self._services
        feed = desk.open(opened.session_id, setup, self._adapter.events_from_update)
        session = ClientSession(feed, self._adapter, desk, setup)
        session.adopt(opened)
        return session


def _setup(
    cwd: _StrPath,
    additional_directories: Iterable[_StrPath],
    mcp_servers: Iterable[McpServer],
    system_prompt: str | SystemPrompt | None,
) -> SessionSetup:
    if isinstance(system_prompt, str):
        system_prompt = SystemPrompt((system_prompt,))
    here = _absolute(cwd)
    others = dict.fromkeys(map(_absolute, additional_directories))
    others.pop(here, None)  # R-DIR-11
    return SessionSetup(
        cwd=here,
        additional_directories=tuple(others),
        mcp_servers=tuple(mcp_servers),
        system_prompt=system_prompt,
        real_directories=tuple(map(os.path.realpath, (here, *others))),
    )


def _absolute(path: _StrPath) -> str:
    return str(Path(path).absolute())
