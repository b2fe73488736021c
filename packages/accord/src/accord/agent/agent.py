"""The base class of agents: the methods and attributes it sets decide what it advertises."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from accord.agent.serve import connections_of, registry_of, serve
from accord.connection.routes import not_served
from accord.errors import MethodNotFound
from accord.local.run import run_program
from accord.transports.stdio import stdio

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.agent.session import ConnectedClient, Session, ToolCallHandle, Turn
    from accord.agent.store import SessionStore
    from accord.roles.spec import ProtocolSpec
    from accord.transports.base import Transport, TransportFactory
    from accord.types.session import Implementation, StopReason

# The methods of agents that a connection calls, and a check of them at class definition.

_COROUTINE = 0x80 | 0x100  # flags of code: `async def`, and what `types.coroutine` makes of one
_ASYNC_GENERATOR = 0x200
_WAITS = ("Awaitable", "Coroutine", "Future", "Task")

# Methods that agents override: a similar name is likely to be a mistake.
_HOOKS = (
    "prompt",
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
    def unstable(self) -> bool: ...
    @property
    def spec_v1(self) -> ProtocolSpec | None: ...

    async def prompt(self, turn: Turn) -> StopReason | None: ...
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
    return module in ("accord.agent.agent", "accord.agent.role")


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


class Agent:
    """The base class of agents, written once for both protocol versions.

    Override `prompt`. A method that you override is advertised to clients as a capability.
    """

    info: Implementation | None = None
    """The name and version of the agent; by default the name of the class."""
    prompt_capabilities: frozenset[str] = frozenset()
    """The content that prompts may have in addition to text and links: image, audio, resource."""
    mcp_transports: frozenset[str] = frozenset()
    """How the agent connects to MCP servers: stdio, http, sse, acp (unstable).

    `session.connect_mcp` connects to servers of all four kinds.
    """
    system_prompt: frozenset[str] = frozenset()
    """The accepted modes of a system prompt of the client: append, override (unstable)."""
    store: SessionStore | None = None
    """Where sessions are stored, so that they can be listed, loaded, resumed and deleted."""
    unstable: bool = False
    """Whether the agent supports unstable parts of the protocol.

    Then sessions can be forked, renamed and archived and have a status, subagents are shown, etc.
    """
    spec_v1: ProtocolSpec | None = None
    """Version 1 with a protocol family added to it."""

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        check_hooks(cls)

    async def prompt(self, turn: Turn) -> StopReason | None:
        """Work on a prompt; return the stop reason, None for "end_turn".

        A cancel cancels this coroutine. The stop reason is then `cancelled`, however it ends.
        """
        raise MethodNotFound

    async def open_session(self, session: Session) -> None:
        """Set up a session that is new or reopened: its options, commands and data."""

    async def close_session(self, session: Session) -> None:
        """Release what a session holds. Its turn has ended."""

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        """Apply the user's choice, which is a valid value of the option.

        Raise to refuse it. The session has the old value until this returns.
        """

    def check_auth(self) -> None:
        """Raise `AuthRequired` if the user has to log in; called before every operation."""

    def check_prompt_auth(self, session: Session) -> None:
        """Raise `AuthRequired` for a prompt, if sessions require different logins."""
        self.check_auth()

    async def decide_permission(self, call: ToolCallHandle) -> bool | None:
        """Decide on a tool call that asks for permission; return None to ask the user."""
        return None

    async def extension_request(self, method: str, params: Any, client: ConnectedClient) -> Any:
        """Handle a request whose method begins with an underscore; `params` are JSON.

        Return JSON, or raise `RequestError`; `MethodNotFound` by default (R-EXT-06).
        """
        raise not_served(method, True)

    async def extension_notification(
        self, method: str, params: Any, client: ConnectedClient
    ) -> None:
        """Handle a notification whose method begins with an underscore; ignored by default."""

    async def aclose(self) -> None:
        """Release what the agent holds; called when `run` ends."""
        if self.store is not None:
            await self.store.aclose()

    def capabilities_v1(self, derived: v1.AgentCapabilities) -> v1.AgentCapabilities:
        """Return the capabilities to advertise in version 1; by default the derived ones."""
        return derived

    def capabilities_v2(self, derived: v2.AgentCapabilities) -> v2.AgentCapabilities:
        """Return the capabilities to advertise in version 2; by default the derived ones."""
        return derived

    def handlers_v1(self) -> Mapping[str, Callable[[Any], object]]:
        """Return handlers for methods that `spec_v1` adds, by call; each gets the params."""
        return {}

    @property
    def sessions(self) -> dict[str, Session]:
        """The open sessions of all connections, by id.

        A session is open once. When a client opens a stored session that is open in another
        client, its work there is cancelled and it is closed there.
        """
        return registry_of(self).sessions

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, clients: {len(self.clients)}>"

    @property
    def clients(self) -> tuple[ConnectedClient, ...]:
        """The connected clients."""
        return tuple(c.client for c in connections_of(self) if c.is_initialized)

    def run(self, transport: TransportFactory | Transport | None = None) -> None:
        """Serve one client in either version until it disconnects, and then `aclose`.

        The default transport is stdin and stdout. A function is called on the event loop.
        """
        if transport is None:
            transport = stdio(restore=False)

        async def serve_it() -> None:
            try:
                await serve(self, transport)
            finally:
                await self.aclose()

        run_program(serve_it())
