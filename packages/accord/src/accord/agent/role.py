"""The half of the roles that both versions have: what is served, and by what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from accord.agent.hooks import can_be_steered
from accord.types.steering import ADVERTISED, STEERING

if TYPE_CHECKING:
    from accord.agent.client_adapter import VersionTypes
    from accord.agent.handlers import SharedHandlers
    from accord.agent.hooks import AgentHooks
    from accord.agent.session import ConnectedClient
    from accord.version import ProtocolVersion


class RoleConnection(Protocol):
    """What a role uses of its connection; see `AgentConnection`."""

    agent: AgentHooks

    def set_client(self, version: ProtocolVersion, params: Any, context: Any) -> None: ...
    def load_handlers(self, version: ProtocolVersion) -> SharedHandlers: ...
    @property
    def client(self) -> ConnectedClient: ...


class SharedRole:
    """What the roles of both versions do alike: they hand all but `initialize` to handlers."""

    version: ClassVar[ProtocolVersion]

    def __init__(self, connection: RoleConnection) -> None:
        self._connection = connection
        self._agent = connection.agent
        self._more: Mapping[str, Callable[[Any], Any]] = {}  # handlers that the agent adds

    @cached_property
    def _handlers(self) -> SharedHandlers:
        return self._connection.load_handlers(self.version)

    def handler(self, call: str) -> Callable[[Any, Any], Any]:
        """Return what serves a call; it loads the handlers with the first request."""
        if (more := self._more.get(call)) is not None:
            return lambda params, _context: more(params)

        def handle(params: Any, context: Any) -> Any:
            return getattr(self._handlers, call)(params, context)

        return handle

    async def extension_request(self, method: str, params: Any, context: Any) -> Any:
        if method == STEERING and can_be_steered(self._agent):
            return await self._handlers.steer(params, context)
        return await self._agent.extension_request(method, params, self._connection.client)

    async def extension_notification(self, method: str, params: Any, context: Any) -> None:
        await self._agent.extension_notification(method, params, self._connection.client)


def initialize_meta(agent: AgentHooks) -> dict[str, Any] | None:
    """Return the `_meta` of the response to `initialize`."""
    meta: dict[str, Any] = dict(ADVERTISED) if can_be_steered(agent) else {}
    if agent.reports:
        meta["accord"] = {"reports": sorted(agent.reports)}
    return meta or None


def implementation_to_wire(types: VersionTypes, agent: AgentHooks) -> Any:
    """Return the name and version of an agent; by default its class is the name."""
    info = agent.info
    if info is None:
        return types.Implementation(name=type(agent).__name__, version="0")
    return types.Implementation(name=info.name, version=info.version, title=info.title)


def system_prompt_to_wire(types: VersionTypes, agent: AgentHooks) -> Any:
    """Return the capability for the modes of system prompts that an agent supports."""
    if not agent.unstable or not agent.system_prompt:
        return None
    if "override" not in agent.system_prompt:
        return types.SessionSystemPromptCapabilities()
    override = types.SessionSystemPromptOverrideCapabilities()
    return types.SessionSystemPromptCapabilities(
        mode=types.SessionSystemPromptModeCapabilities(override=override)
    )
