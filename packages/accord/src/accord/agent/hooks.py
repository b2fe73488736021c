"""What connections know of an agent: its methods, its open sessions, its logins and providers.

`AgentHooks` are the methods that a connection calls; `check_hooks` warns of mistakes when a class
is defined. `Registry` has the sessions that are open on all connections of an agent. The mix-ins
add auth methods and providers of models.
"""

from __future__ import annotations

import asyncio
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakValueDictionary

from msgspec import Struct

from accord.errors import AuthRequired, InvalidParams, TransportError
from accord.types.session import AuthAccount, AuthState, ProviderInfo

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.agent.session import ConnectedClient, Session, ToolCallHandle, Turn
    from accord.agent.session_core import SessionCore
    from accord.agent.store import SessionStore
    from accord.agent.work import SteeringMessage
    from accord.types.session import Implementation, StopReason
    from accord.wire.protocol import ProtocolSpec

# The methods of agents that a connection calls, and a check of them at class definition.

_COROUTINE = 0x80 | 0x100  # flags of code: `async def`, and what `types.coroutine` makes of one
_ASYNC_GENERATOR = 0x200
_WAITS = ("Awaitable", "Coroutine", "Future", "Task")

# Methods that agents override: a similar name is likely to be a mistake.
_HOOKS = (
    "prompt",
    "steer",
    "decide_permission",
    "open_session",
    "close_session",
    "set_option",
    "check_auth",
    "check_prompt_auth",
    "extension_request",
    "extension_notification",
    "capabilities_v1",
    "capabilities_v2",
)


class AgentHooks(Protocol):
    """The attributes and methods of an agent that its connections use; see `Agent`."""

    # Read-only, so that a subclass may declare a narrower type.
    @property
    def store(self) -> SessionStore | None: ...
    @property
    def info(self) -> Implementation | None: ...
    @property
    def prompt_capabilities(self) -> frozenset[str]: ...
    @property
    def mcp_transports(self) -> frozenset[str]: ...
    @property
    def system_prompt(self) -> frozenset[str]: ...
    @property
    def steering(self) -> bool: ...
    @property
    def reports(self) -> frozenset[Literal["tokens", "cost"]]: ...
    @property
    def unstable(self) -> bool: ...
    @property
    def spec_v1(self) -> ProtocolSpec | None: ...

    async def prompt(self, turn: Turn) -> StopReason | None: ...
    async def steer(self, turn: Turn, message: SteeringMessage) -> None: ...
    async def open_session(self, session: Session) -> None: ...
    async def close_session(self, session: Session) -> None: ...
    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None: ...
    def check_auth(self) -> None: ...
    def check_prompt_auth(self, session: Session) -> None: ...
    async def decide_permission(self, call: ToolCallHandle) -> bool | None: ...
    async def extension_request(self, method: str, params: Any, client: ConnectedClient) -> Any: ...
    async def extension_notification(
        self, method: str, params: Any, client: ConnectedClient
    ) -> None: ...
    def handlers_v1(self) -> Mapping[str, Callable[[Any], object]]: ...
    def capabilities_v1(self, derived: v1.AgentCapabilities) -> v1.AgentCapabilities: ...
    def capabilities_v2(self, derived: v2.AgentCapabilities) -> v2.AgentCapabilities: ...


def is_default(agent: object, hook: str) -> bool:
    """Return whether an agent, or a class of agents, has not overridden a hook."""
    module = getattr(getattr(agent, hook, None), "__module__", "accord.agent.agent")
    return module in ("accord.agent.agent", "accord.agent.hooks")


def can_be_steered(agent: AgentHooks) -> bool:
    """Return whether an agent takes messages while it works."""
    return agent.steering or not is_default(agent, "steer")


def check_hooks(cls: type[Any]) -> None:
    """Raise `TypeError` for an invalid override; warn of a name that is similar to a hook."""
    bases = cls.__mro__[1:]
    for name, value in vars(cls).items():
        if not isinstance(value, FunctionType):
            continue
        base = next((vars(base)[name] for base in bases if name in vars(base)), None)
        if base is None:
            if not name.startswith("_"):
                _check_name(cls, name)
        elif isinstance(base, FunctionType) and base.__module__.startswith("accord."):
            check_async(cls, name, value, base)


def check_async(cls: type[Any], name: str, value: FunctionType, base: FunctionType) -> None:
    """Raise `TypeError` for an override that is a coroutine function, unlike its base, or not."""
    where = f"{cls.__name__}.{name}"
    flags = value.__code__.co_flags
    if flags & _ASYNC_GENERATOR:
        raise TypeError(f"{where} must not yield: write `await turn.say(…)` to say something")
    is_async = bool(flags & _COROUTINE)
    if base.__code__.co_flags & _COROUTINE:
        # A decorated function, or one annotated as returning an awaitable, may return one.
        told = str(value.__annotations__.get("return", ""))
        if (
            not is_async
            and not hasattr(value, "__wrapped__")
            and not any(w in told for w in _WAITS)
        ):
            raise TypeError(f"{where} has to be a coroutine function: write `async def {name}(…)`")
    elif is_async:
        raise TypeError(f"{where} is not awaited: write `def {name}(…)`, without `async`")


def _check_name(cls: type[Any], name: str) -> None:
    meant = next((hook for hook in _HOOKS if is_nearly(name, hook)), None)
    if meant is None:
        return
    if not is_default(cls, meant):
        return  # the class has that hook, too
    where = f"{cls.__name__}.{name}"
    if meant == "prompt":
        raise TypeError(f"{where} is never called: an agent has `async def prompt(self, turn)`")
    warnings.warn(f"{where} is never called: did you mean `{meant}`?", stacklevel=4)


def is_nearly(name: str, hook: str) -> bool:
    """Return whether two names differ by one letter: missing, added, replaced or moved."""
    if name.lower().replace("_", "") == hook.replace("_", ""):
        return True
    if abs(len(name) - len(hook)) > 1:
        return False
    same = 0
    while same < min(len(name), len(hook)) and name[same] == hook[same]:
        same += 1
    one, other = name[same:], hook[same:]
    return (
        one[1:] == other
        or one == other[1:]
        or one[1:] == other[1:]
        or (one[:2] == other[1::-1] and one[2:] == other[2:])
    )


# The connections of an agent, and the sessions that are open on them.


class OpenConnection(Protocol):
    """A connection of an agent; see `AgentConnection`."""

    @property
    def is_initialized(self) -> bool:
        """Whether `initialize` has been handled."""
        ...

    @property
    def client(self) -> ConnectedClient:
        """The client."""
        ...

    async def send_auth_status(self, state: AuthState, accounts: tuple[AuthAccount, ...]) -> None:
        """Send the auth status to the client, if it has asked for it and the status changed."""
        ...


class SessionOwner(Protocol):
    """What has a session open: the session manager of a connection."""

    async def close_locked(self, session_id: str, *, taken_over: bool = False) -> None:
        """Close a session; the caller holds its lock. The client is notified if `taken_over`."""
        ...

    def session(self, session_id: str) -> SessionCore:
        """Return an open session."""
        ...

    def set_users_title(self, session_id: str, title: str) -> None:
        """Set the title of an open session; the agent can no longer change it."""
        ...


class Registry:
    """The open sessions by id, who has them open, and a lock for each."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.owners: dict[str, SessionOwner] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def add(self, session: Session, owner: SessionOwner) -> None:
        """Record that a session is open."""
        self.sessions[session.id] = session
        self.owners[session.id] = owner

    def remove(self, session_id: str) -> None:
        """Record that a session is closed."""
        self.sessions.pop(session_id, None)
        self.owners.pop(session_id, None)

    def lock(self, session_id: str) -> asyncio.Lock:
        """Return the lock to hold while a session is opened or closed."""
        return self._locks.setdefault(session_id, asyncio.Lock())


def registry_of(agent: object) -> Registry:
    """Return the registry of an agent."""
    state = vars(agent)
    registry = state.get("_registry")
    if registry is None:
        registry = state["_registry"] = Registry()
    return registry


def connections_of(agent: object) -> set[OpenConnection]:
    """Return the connections of an agent."""
    return vars(agent).setdefault("_connections", set())


# Mix-ins for agents with auth methods or with providers of models that users configure.


class AgentAuthMethod(Struct, frozen=True):
    """An auth method of type `agent`: the agent runs the login itself."""

    id: str
    name: str
    description: str | None = None


class TerminalAuthMethod(Struct, frozen=True):
    """An auth method of type `terminal`: the client runs the agent's command in a terminal.

    `args` and `env` are added to the command, which must exit when the user is logged in. It is
    advertised only to clients that support it.
    """

    id: str
    name: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    description: str | None = None


class AuthenticationMixin(ABC):
    """Mix-in for agents that require a login: `class MyAgent(AuthenticationMixin, Agent)`."""

    auth_methods: Sequence[AgentAuthMethod | TerminalAuthMethod] = ()

    @abstractmethod
    def is_logged_in(self) -> bool:
        """Return whether the user is logged in; must be fast, as every request calls it."""

    @abstractmethod
    async def login(self, login_id: str) -> None:
        """Log in by one of the `auth_methods` of type `agent`; raise if the login fails."""

    @abstractmethod
    async def logout(self) -> None:
        """Log out."""

    async def auth_status(self) -> tuple[AuthState, Sequence[AuthAccount]]:
        """Return whether a user is logged in, and the accounts."""
        return ("authenticated" if self.is_logged_in() else "unauthenticated"), ()

    async def notify_auth_status(self) -> None:
        """Send the auth status to the clients that have an older one (unstable).

        Call it when the status changes other than by a login or logout of a client. It is sent
        only by agents that are `unstable` or override `auth_status`, and only to clients that
        have asked for the status: others may not support it.
        """
        state, accounts = await self.auth_status()
        for connection in tuple(connections_of(self)):
            with suppress(TransportError):  # the client has just disconnected
                await connection.send_auth_status(state, tuple(accounts))

    def check_auth(self) -> None:
        """Raise `AuthRequired` unless the user is logged in."""
        if not self.is_logged_in():
            raise AuthRequired


async def validated_login(agent: AuthenticationMixin, login_id: str) -> None:
    """Log in; raise `InvalidParams` for a method that is not advertised (R-AUTH-09)."""
    if not any(
        isinstance(login, AgentAuthMethod) and login.id == login_id for login in agent.auth_methods
    ):
        raise InvalidParams("Unknown login", data={"methodId": login_id})
    await agent.login(login_id)


def overrides_auth_status(agent: AuthenticationMixin) -> bool:
    """Return whether an agent overrides `auth_status`."""
    return type(agent).auth_status is not AuthenticationMixin.auth_status


class ProvidersMixin(ABC):
    """Mix-in for agents whose providers of models the client configures, for later sessions."""

    @abstractmethod
    async def list_providers(self) -> Sequence[ProviderInfo]:
        """Return all providers."""

    @abstractmethod
    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Replace the whole configuration of a provider; `headers` may hold secrets."""

    @abstractmethod
    async def disable_provider(self, provider_id: str) -> None:
        """Disable a provider."""


async def set_validated_provider(
    agent: ProvidersMixin,
    provider_id: str,
    api_type: str,
    base_url: str,
    headers: Mapping[str, str],
) -> None:
    """Set a provider; raise `InvalidParams` for an unknown provider or API (R-PROV-07)."""
    for provider in await agent.list_providers():
        if provider.id == provider_id:
            if api_type not in provider.supported:
                raise InvalidParams("Unsupported protocol", data={"apiType": api_type})
            await agent.set_provider(provider_id, api_type, base_url, headers)
            return
    raise InvalidParams("Unknown provider", data={"providerId": provider_id})


async def disable_known_provider(agent: ProvidersMixin, provider_id: str) -> None:
    """Disable a provider; an unknown one is not an error (R-PROV-08, R-PROV-09)."""
    for provider in await agent.list_providers():
        if provider.id == provider_id:
            if provider.required:
                raise InvalidParams("The provider is required")
            await agent.disable_provider(provider_id)


# What an agent serves.

# Served by agents with a store, in both versions.
STORE_CALLS = frozenset(
    {
        "fork_session",
        "list_sessions",
        "session_status",
        "set_session_title",
        "archive_session",
        "unarchive_session",
        "delete_session",
    }
)
# Served by agents that use MCP servers of the client; no stable client calls it.
MCP_CALLS = frozenset({"notify_mcp"})
PROVIDER_CALLS = frozenset({"list_providers", "set_provider", "disable_provider"})


def served_calls(
    agent: AgentHooks, always: frozenset[str], store: frozenset[str], auth: frozenset[str]
) -> frozenset[str]:
    """Return the calls that an agent serves; the sets are those of the version."""
    served = always
    if agent.store is not None:
        served |= store
    if isinstance(agent, AuthenticationMixin):
        served |= auth
    if isinstance(agent, ProvidersMixin):
        served |= PROVIDER_CALLS
    if "acp" in agent.mcp_transports:
        served |= MCP_CALLS
    return served


def auth_methods_for(
    agent: AgentHooks, *, terminals: bool
) -> list[AgentAuthMethod | TerminalAuthMethod]:
    """Return the auth methods that the client can use; `terminals` if it runs some (R-AUTH-13)."""
    if not isinstance(agent, AuthenticationMixin):
        return []
    return [m for m in agent.auth_methods if terminals or isinstance(m, AgentAuthMethod)]
