"""The methods of agents that a connection calls, and a check of them at class definition."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.agent.session import ConnectedClient, Session, ToolCallHandle
    from accord.agent.store.base import SessionStore
    from accord.agent.turn import Turn
    from accord.types.session import Implementation, StopReason
    from accord.wire.protocol import ProtocolSpec


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
    return module in ("accord.agent.agent", "accord.agent.mixins")


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
