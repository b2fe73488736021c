"""Connects to an agent, or starts one, and opens sessions.

The first part checks what a program gives: misspelt options, wrong types, the setup of a session.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from msgspec import UNSET, Struct
from msgspec.structs import replace

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
from accord.client.events import CommandsChanged, OptionsChanged
from accord.client.files import ClientFiles, ClientTerminals, Files
from accord.client.handlers import ClientHandlers, Extension
from accord.client.permissions import Policy
from accord.client.session import ClientSession
from accord.connection.connection import Observer
from accord.connection.limits import Limits
from accord.errors import ConnectionClosed
from accord.local.files import real_path
from accord.text.excerpt import excerpt, nearest, nearest_keyword
from accord.transports.base import Transport, TransportFactory
from accord.transports.process import ProcessTransport, argv_of, process
from accord.transports.registry import Reconnect, RemoteOptions, is_url, transport_for_url
from accord.types.mcp import McpServer, mcp_transport
from accord.types.must_await import must_await, must_enter, must_iterate
from accord.types.session import AuthStatus, Implementation, ProviderInfo, SystemPrompt
from accord.types.steering import STEERING
from accord.types.validation import require_type, type_error
from accord.version import ProtocolVersion, __version__

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.client.budget import Budget, Ledger
    from accord.roles.binding import Role
    from accord.roles.remote import Remote

# Checks the arguments of `connect`, `ask` and the methods that open sessions.

log: logging.Logger = logging.getLogger("accord.client")

_CALLBACKS = ("on_elicit_form", "on_elicit_url", "on_auth_status", "on_stderr", "on_stdout_noise")
_MCP = (
    'a list of MCP servers, such as [McpServerStdio("name", "/path/of/command")]; the classes'
    " are exported by accord"
)


def check_options(given: Mapping[str, Any]) -> None:
    """Raise `TypeError` or `ValueError` for an option of `connect` that cannot be used."""
    for name in _CALLBACKS:
        if given[name] is not None and not callable(given[name]):
            raise _error(name, "a function", given[name])
    files = given["files"]
    is_source = callable(getattr(files, "read", None)) and callable(getattr(files, "write", None))
    if files not in (None, "ro", "rw") and not is_source:
        raise _error(
            "files", '"ro", "rw", None, or an object with the methods `read` and `write`', files
        )
    env = given["env"]
    if env is not None and not isinstance(env, Mapping):
        raise _error("env", 'a dict, such as {"NAME": "value"}', env)
    for name, value in cast("Mapping[Any, Any]", env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            # The value may be a secret.
            raise TypeError(
                "connect(env=…): expected names and values that are strings, or None to remove a "
                f"variable, got {type(value).__name__} as the value of {excerpt(repr(name), 60)}"
            )
    require_type("connect(limits=…)", given["limits"], Limits, type(None))
    require_type("connect(reconnect=…)", given["reconnect"], bool, Reconnect)
    require_type("connect(client_info=…)", given["client_info"], Implementation, type(None))
    require_type("connect(initialize_timeout_s=…)", given["initialize_timeout_s"], int, float)
    versions, observers = given["versions"], given["observers"]
    if isinstance(versions, str) or not isinstance(versions, Iterable):
        raise _error("versions", "a list of versions, such as (1,) or (1, 2)", versions)
    if not isinstance(observers, Sequence):
        raise _error("observers", "a list of functions", observers)


def check_known(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `TypeError` for a keyword argument that a function does not have."""
    names = set(known)
    for name in given:
        if name not in names:
            near = nearest_keyword(name, names)
            meant = "" if near is None else f"; did you mean {near!r}?"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{meant}")


def check_session(
    cwd: object,
    directories: object,
    mcp_servers: object,
    system_prompt: object,
    meta: object,
) -> None:
    """Raise `TypeError` for an argument of the methods that open sessions."""
    require_type("cwd=…", cwd, str, os.PathLike)
    given = directories
    if isinstance(directories, str | os.PathLike) or not isinstance(directories, Iterable):
        # The characters of a text would be directories, `/` among them.
        raise type_error("additional_directories=…", given, str, expected="a list of ")
    for server in _listed(mcp_servers):
        if not isinstance(server, Struct):
            raise TypeError(f"mcp_servers=…: expected {_MCP}, got {excerpt(repr(server), 100)}")
    require_type("system_prompt=…", system_prompt, str, SystemPrompt, type(None))
    if meta is not None and not isinstance(meta, dict):
        raise type_error("meta=…", meta, dict, type(None))


def existing_directory(cwd: str | os.PathLike[str], *, is_local: bool) -> None:
    """Raise `NotADirectoryError` for a relative path that is not a directory of this machine.

    An absolute path may be one of a container; for a local process it is logged.
    """
    path = Path(cwd)
    if path.is_dir():
        return
    if not path.is_absolute():
        raise NotADirectoryError(
            f"cwd=…: expected a directory, but {excerpt(str(path.absolute()), 300)} "
            f"{'is a file' if path.exists() else 'does not exist'}"
        )
    if is_local:
        log.warning("! the directory of the session does not exist on this machine: %s", path)


def _listed(servers: Any) -> Iterable[Any]:
    is_one = isinstance(servers, str | bytes | Struct) or hasattr(servers, "keys")
    if is_one or not hasattr(servers, "__iter__"):
        raise TypeError(f"mcp_servers=…: expected {_MCP}, got {excerpt(repr(servers), 100)}")
    return cast("Iterable[Any]", servers)


def _error(name: str, expected: str, value: object) -> TypeError:
    kind = "None" if value is None else f"{type(value).__name__}: {excerpt(repr(value), 60)}"
    return TypeError(f"connect({name}=…): expected {expected}, got {kind}")


# Makes the setup of a session from what a program gives.

StrPath: TypeAlias = str | os.PathLike[str]


def session_setup(
    cwd: StrPath,
    directories: Iterable[StrPath],
    mcp_servers: Iterable[McpServer],
    system_prompt: str | SystemPrompt | None,
    meta: dict[str, Any] | None = None,
) -> SessionSetup:
    """Return the setup of a session; relative paths are those of the current directory."""
    if isinstance(system_prompt, str):
        system_prompt = SystemPrompt((system_prompt,))
    cwd = absolute(cwd)
    # `additionalDirectories` contains each directory once, and not `cwd` (R-DIR-11).
    others = tuple(dict.fromkeys(map(absolute, directories)))
    if cwd in others:
        others = tuple(path for path in others if path != cwd)
    return SessionSetup(
        cwd=cwd,
        additional_directories=others,
        mcp_servers=tuple(mcp_servers),
        system_prompt=system_prompt,
        meta=meta,
        real_directories=(real_path(cwd), *map(real_path, others)),
    )


def absolute(path: StrPath) -> str:
    """Return an absolute path as text."""
    text = os.fspath(path)
    if os.path.isabs(text) and os.path.normpath(text) == text:  # noqa: PTH117  # much faster
        return text
    return str(Path(path).absolute())


# The command line that starts an agent, as a string or its arguments, or a transport.
AgentCommand: TypeAlias = str | Sequence[str] | Transport | TransportFactory


class ConnectOptions(TypedDict, total=False):
    """The keyword arguments of `connect` that `accord.ask` passes on; `connect` documents them."""

    files: Files
    terminals: bool
    on_elicit_form: OnElicitForm | None
    on_elicit_url: OnElicitUrl | None
    on_auth_status: Callable[[AuthStatus], None] | None
    extensions: Mapping[str, Extension] | None
    unstable: bool
    terminal_login: bool
    client_info: Implementation | None
    env: Mapping[str, str | None] | None
    on_stderr: Callable[[str], None] | None
    on_stdout_noise: Callable[[str], None] | None
    token: str | None
    insecure: bool
    ca_file: StrPath | None
    reconnect: bool | Reconnect
    limits: Limits | None
    observers: Sequence[Observer]
    versions: Iterable[ProtocolVersion]
    initialize_timeout_s: float
    budget: Budget | Sequence[Budget] | None
    ledger: Ledger | None
    unmetered: Collection[str]


@must_enter(
    "accord.connect(…) is entered, not awaited or used directly: write"
    " `async with accord.connect(…) as agent:`, and use `agent` in the block"
)
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
    cwd: StrPath | None = None,
    env: Mapping[str, str | None] | None = None,
    on_stderr: Callable[[str], None] | None = None,
    on_stdout_noise: Callable[[str], None] | None = None,
    token: str | None = None,
    insecure: bool = False,
    ca_file: StrPath | None = None,
    reconnect: bool | Reconnect = False,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
    versions: Iterable[ProtocolVersion] = (1, 2),
    initialize_timeout_s: float = 120.0,
    budget: Budget | Sequence[Budget] | None = None,
    ledger: Ledger | None = None,
    unmetered: Collection[str] = (),
) -> AsyncGenerator[ConnectedAgent, None]:
    """Connect to an agent in the newest protocol version that both sides support.

        async with accord.connect("opencode acp") as agent:
            session = await agent.new_session(cwd=".")

    `command` starts the agent. It can also be the URL of a remote agent (`wss://…`, `https://…`),
    a transport, or a function that returns one. Leaving the block closes the connection and stops
    the agent's process.

    `permissions` decides permission requests; a request that no policy decides is rejected.
    `files` ("ro", "rw" or a `TextSource`) and `terminals` let v1 agents use files and commands of
    this machine, in the directories of their sessions. `on_elicit_form` and `on_elicit_url` ask
    the user for input on behalf of the agent. `on_auth_status` is called when the login status
    changes; an agent may send changes only to clients that have called `auth_status`.
    `extensions` maps method names, which begin with an underscore, to functions that serve them.
    `unstable` advertises subagents and several plans to a v1 agent. `terminal_login` advertises
    that you can run the agent's command at the user's terminal to log in (`AuthMethod.terminal`).

    `cwd` and `env` apply to the agent's process. `on_stderr` receives the lines that it writes to
    stderr, `on_stdout_noise` the lines on its stdout that are not JSON.

    `token` and `ca_file` are for a URL: the token is sent as `Authorization: Bearer`, the file has
    the certificates to trust. A token is sent unencrypted to another machine only if `insecure`.

    With `reconnect`, a lost connection is established again, and the open sessions are loaded or
    resumed: their transcripts continue. Requests in progress fail, new ones wait. A running turn
    ends with `TurnInterrupted`, unless a v2 agent reports its state. If the agent cannot be
    reached again, everything ends with `ConnectionLost`.

    `budget` limits what each turn, session or day may use: the turn that reaches a limit is
    cancelled, and its `limit` says which one. Limits of tokens and cost need an agent that reports
    them; one that does not is refused with `UnmeteredAgent`, unless its name is in `unmetered`.
    `ledger` keeps what sessions and days have used; budgets of days have one by default.

    Raises `TransportError` if the agent cannot be started or reached, `UnsupportedVersion` if it
    supports none of `versions`, `RequestError` if it refuses `initialize`, and `TimeoutError` if
    it does not respond within `initialize_timeout_s`.
    """
    check_options(locals())
    options = RemoteOptions(token=token, insecure=insecure, ca_file=ca_file)
    transport = _transport_for(
        command,
        options,
        bool(reconnect),
        cwd=cwd,
        env=env,
        on_stderr=on_stderr,
        on_stdout_noise=on_stdout_noise,
    )
    handlers = ClientHandlers(
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
    handlers.tools.agent_url = command if isinstance(command, str) and is_url(command) else None
    client_info = client_info or Implementation("accord", __version__)

    def role(version: ProtocolVersion) -> roles.LazyRole[Remote]:
        return roles.LazyRole(version, lambda: _classes(version)[0](handlers, client_info))

    def connection(
        versions: Iterable[ProtocolVersion],
    ) -> AbstractAsyncContextManager[Remote]:
        return roles.connect(
            transport,
            *map(role, set(versions)),
            limits=limits,
            observers=observers,
            initialize_timeout_s=initialize_timeout_s,
        )

    if reconnect and isinstance(transport, Transport):
        raise TypeError("connect(reconnect=…): expected a URL or a function, got a transport")
    async with connection(versions) as remote:
        adapter = _classes(remote.spec.version)[1](remote)
        if budget is not None:
            from accord.client.budget import Budgets, budgets_of

            handlers.budgets = Budgets(
                budgets_of("connect(budget=…)", budget),
                adapter.info.name,
                remote.initialized.meta,
                unmetered=unmetered,
                ledger=ledger,
            )
        remote.connection.flow.reads_others = handlers.reads_others
        handlers.files.set_agent(adapter.info)
        if reconnect:
            from accord.client.reconnect import Reconnector

            settings = reconnect if isinstance(reconnect, Reconnect) else Reconnect()
            again = partial(connection, (remote.spec.version,))
            watch = Reconnector(settings, adapter, handlers, again, initialize_timeout_s).run()
        else:
            watch = _watch(remote, handlers)
        watching = asyncio.create_task(watch, name="accord watch")
        try:
            yield ConnectedAgent(adapter, handlers)
        finally:
            watching.cancel()
            handlers.end(ConnectionClosed("The connection was closed"))
            await handlers.aclose()
            await handlers.tools.aclose()
            await asyncio.wait([watching])


def _classes(
    version: ProtocolVersion,
) -> tuple[Callable[[ClientHandlers, Implementation], Role[Remote]], type[AgentAdapter]]:
    """Import a version when it is used: most programs need only one."""
    if version == 1:
        from accord.client.v1 import AgentAdapterV1, ClientRoleV1

        return ClientRoleV1, AgentAdapterV1
    from accord.client.v2 import AgentAdapterV2, ClientRoleV2

    return ClientRoleV2, AgentAdapterV2


async def _watch(remote: Remote, handlers: ClientHandlers) -> None:
    closed = ConnectionClosed("The connection was closed")
    handlers.end(await remote.connection.wait_ended() or closed)


def _transport_for(
    command: AgentCommand,
    options: RemoteOptions,
    reconnects: bool,
    *,
    cwd: StrPath | None,
    **given: Any,
) -> Transport | TransportFactory:
    if isinstance(command, str) and is_url(command):
        return transport_for_url(command, replace(options, ends_when_cut=reconnects))
    if options != RemoteOptions():
        raise TypeError("connect(token=…, insecure=…, ca_file=…): only for the URL of an agent")
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
    """A connected agent, after `initialize`."""

    def __init__(self, adapter: AgentAdapter, handlers: ClientHandlers) -> None:
        self._adapter = adapter
        self._handlers = handlers

    def __repr__(self) -> str:
        name = excerpt(self.info.name, 60)
        version = excerpt(self.info.version, 60)
        return f"<ConnectedAgent {name!r} {version!r}, protocol version {self.version}>"

    @property
    def remote(self) -> v1.RemoteAgent | v2.RemoteAgent:
        """The `RemoteAgent` of the protocol version in use, to call all methods of it."""
        return self._adapter.remote

    @property
    def version(self) -> ProtocolVersion:
        """The protocol version in use."""
        return self._adapter.version

    @property
    def info(self) -> Implementation:
        """The name and version of the agent."""
        return self._adapter.info

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The auth methods that the agent advertises."""
        return self._adapter.auth_methods

    def supports(self, method: str) -> bool:
        """Return whether the agent advertises a method: `load_session`, `session/load`, ….

        Names are those of the protocol, and those of the methods of this object, of sessions and
        of `remote`. A method of the other protocol version means its equivalent in this one.
        Raises `ValueError`, which suggests a name, for a name that is not a method of agents.
        """
        adapter = self._adapter
        calls = adapter.method_calls(adapter.remote.spec.methods)
        if method in calls:
            return adapter.supports(method)
        if method in ("steer", STEERING):
            return adapter.can_be_steered
        _, other = _classes(2 if self.version == 1 else 1)
        others = other.method_calls(other.types.METHODS)
        if method not in others:
            near = nearest(str(method), [*calls, *others, "steer"])
            hint = "expected one of agents, such as 'session/load'"
            meant = hint if near is None else f"did you mean {near!r}?"
            raise ValueError(f"Unknown method {excerpt(str(method), 60)!r}: {meant}")
        return adapter.supports(others[method])

    def supports_content(self, kind: str) -> bool:
        """Return whether prompts may contain `image`, `audio` or `resource`."""
        return self._adapter.supports_content(kind)

    def supports_mcp_server(self, server: McpServer) -> bool:
        """Return whether sessions can have this MCP server: agents advertise its transport."""
        return mcp_transport(server) in self._adapter.mcp_transports

    # Sessions.

    @property
    def unopened_sessions(self) -> frozenset[str]:
        """The ids of sessions that the agent reports on, and that this client has not opened.

        Their updates are kept until the session is opened. At most 256 are counted.
        """
        return self._handlers.unopened_sessions

    @must_await("agent")
    async def new_session(
        self,
        cwd: StrPath = ".",
        *,
        additional_directories: Iterable[StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
        tools: Iterable[object] = (),
        system_prompt: str | SystemPrompt | None = None,
        meta: dict[str, Any] | None = None,
    ) -> ClientSession:
        """Open a new session in `cwd`.

        `additional_directories` need an agent that supports them. `tools` are functions of this
        program that the agent can call: typed functions, objects with methods marked by
        `accord.tool`, and servers of the library `mcp`. They need the extra `mcp`.
        `meta` is sent as `_meta`, for extensions of single agents.
        """
        setup = self._setup(cwd, additional_directories, mcp_servers, system_prompt, meta)
        async with self._handlers.tools.serve(setup, tools, self._adapter) as opening:
            opening.session = await self._adapter.new_session(opening.setup)
            return self._session(opening.session, opening.setup)

    @must_await("agent")
    async def load_session(
        self,
        session_id: str,
        cwd: StrPath = ".",
        *,
        additional_directories: Iterable[StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
        tools: Iterable[object] = (),
        system_prompt: str | SystemPrompt | None = None,
        meta: dict[str, Any] | None = None,
        replay: bool = True,
    ) -> ClientSession:
        """Open a stored session; unless `replay` is false, its transcript contains the history.

        Without `replay`, a history that the agent sends anyway is dropped. An agent that supports
        only `session/load` always sends it.
        """
        setup = self._setup(cwd, additional_directories, mcp_servers, system_prompt, meta)
        async with self._handlers.tools.serve(setup, tools, self._adapter) as opening:
            # The replay precedes the response, and starts from an empty transcript.
            stream = self._handlers.open(
                session_id, opening.setup, self._adapter.events_from_update, replaces=True
            )
            stream.drops_history = not replay
            try:
                opening.session = await self._adapter.load_session(
                    session_id, opening.setup, replay=replay, opened=stream.end_replay
                )
            except BaseException:
                if self._handlers.event_streams.get(session_id) is stream:
                    self._handlers.drop_session(session_id)
                raise
            return self._session(opening.session, opening.setup)

    @must_await("agent")
    async def fork_session(
        self,
        session_id: str,
        cwd: StrPath = ".",
        *,
        additional_directories: Iterable[StrPath] = (),
        mcp_servers: Iterable[McpServer] = (),
        tools: Iterable[object] = (),
        system_prompt: str | SystemPrompt | None = None,
        meta: dict[str, Any] | None = None,
    ) -> ClientSession:
        """Open a new session that starts as a copy of another one."""
        setup = self._setup(cwd, additional_directories, mcp_servers, system_prompt, meta)
        async with self._handlers.tools.serve(setup, tools, self._adapter) as opening:
            opening.session = await self._adapter.fork_session(session_id, opening.setup)
            return self._session(opening.session, opening.setup)

    @must_iterate(
        "agent.list_sessions(…) is iterated, not awaited: write"
        " `async for info in agent.list_sessions(…):`"
    )
    async def list_sessions(
        self,
        cwd: StrPath | None = None,
        *,
        archived: Literal["exclude", "include", "only"] | None = None,
    ) -> AsyncGenerator[SessionInfo, None]:
        """Iterate over the stored sessions, of one directory if `cwd` is given.

        Further pages are requested as needed. Archived sessions are excluded by default.
        """
        where = None if cwd is None else absolute(cwd)
        cursor: str | None = None
        while True:
            page = await self._adapter.list_sessions(where, cursor, archived)
            for listing in page.sessions:
                yield listing
            if page.next_cursor is None or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    @must_await("agent")
    async def close_session(self, session_id: str) -> None:
        """Close a session: the agent stops its work and frees it."""
        await self._adapter.close_session(session_id)
        await self._handlers.close_session(session_id)

    @must_await("agent")
    async def delete_session(self, session_id: str) -> None:
        """Delete a stored session permanently."""
        await self._adapter.delete_session(session_id)
        await self._handlers.close_session(session_id)

    async def archive_session(self, session_id: str) -> None:
        """Close and archive a session."""
        await self._adapter.archive_session(session_id)
        await self._handlers.close_session(session_id)

    async def unarchive_session(self, session_id: str) -> None:
        """Unarchive a session, without opening it."""
        await self._adapter.unarchive_session(session_id)

    async def set_session_title(self, session_id: str, title: str) -> str:
        """Set the title of a stored session; return it as the agent has stored it."""
        return await self._adapter.set_session_title(session_id, title)

    async def session_status(self, session_id: str) -> SessionStatus:
        """Return whether a session is open in the agent, without opening it."""
        return await self._adapter.session_status(session_id)

    # Login.

    @must_await("agent")
    async def authenticate(self, method_id: str) -> None:
        """Log in by an auth method that the agent runs."""
        await self._adapter.authenticate(method_id)

    @must_await("agent")
    async def logout(self) -> None:
        """Log out."""
        await self._adapter.logout()

    async def auth_status(self) -> AuthStatus:
        """Return whether a user is logged in, and the accounts."""
        return await self._adapter.auth_status()

    # Model providers.

    async def providers(self) -> tuple[ProviderInfo, ...]:
        """Return the model providers that can be configured."""
        return await self._adapter.providers()

    async def set_provider(
        self,
        provider_id: str,
        *,
        api_type: str,
        base_url: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the configuration of a model provider; `headers` may contain secrets."""
        await self._adapter.set_provider(provider_id, api_type, base_url, headers or {})

    async def disable_provider(self, provider_id: str) -> None:
        """Disable a model provider."""
        await self._adapter.disable_provider(provider_id)

    # Extension methods.

    async def call_extension(self, method: str, params: Any = UNSET) -> Any:
        """Call an extension method, whose name begins with an underscore, with JSON values."""
        return await self.remote.call_extension(method, params)

    async def notify_extension(self, method: str, params: Any = UNSET) -> None:
        """Send an extension notification, whose name begins with an underscore."""
        await self.remote.notify_extension(method, params)

    def _setup(self, cwd: StrPath, *given: Any) -> SessionSetup:
        check_session(cwd, *given)
        if self._handlers.tools.agent_url is None:
            transport = self._adapter.remote.connection.transport
            existing_directory(cwd, is_local=isinstance(transport, ProcessTransport))
        return session_setup(cwd, *given)

    def _session(self, opened: OpenedSession, setup: SessionSetup) -> ClientSession:
        handlers = self._handlers
        stream = handlers.open(opened.session_id, setup, self._adapter.events_from_update)
        if opened.options is not None:
            stream.publish(OptionsChanged(opened.options))
        if opened.commands is not None:
            stream.publish(CommandsChanged(opened.commands))
        if handlers.budgets is not None:
            used = stream.transcript.usage
            cost = None if used is None or used.cost is None else used.cost.amount
            stream.meter = handlers.budgets.meter(opened.session_id, cost)
        return ClientSession(stream, self._adapter, handlers, setup)
