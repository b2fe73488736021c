"""A client that is connected, as its agent sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accord.wire.base import UNSET

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.agent.session import Session
    from accord.agent.session_manager import SessionManager
    from accord.types.session import Implementation
    from accord.version import ProtocolVersion

__all__ = ("ConnectedClient",)


class ConnectedClient:
    """Who the client is, and the extensions of the protocol that it serves."""

    def __init__(self, host: SessionManager) -> None:
        self._manager = host

    @property
    def version(self) -> ProtocolVersion:
        """The version of the protocol that it speaks."""
        return self._manager.client_adapter.version

    @property
    def info(self) -> Implementation | None:
        """Its name and version, if it has told them."""
        return self._manager.client_adapter.client_info

    @property
    def capabilities(self) -> v1.ClientCapabilities | v2.ClientCapabilities:
        """What it offers, as its version has it; extensions stand in `meta` (R-EXT-08)."""
        return self._manager.client_adapter.capabilities

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The sessions that it has open, by id."""
        return self._manager.sessions

    async def call_extension(self, method: str, params: Any = UNSET) -> Any:
        """Send a request whose method begins with an underscore; return its result as JSON.

        Raises `RequestError` for an error answer, which -32601 is when it has no such method.
        """
        return await self._manager.client_adapter.call_extension(method, params)

    async def notify_extension(self, method: str, params: Any = UNSET) -> None:
        """Send a notification whose method begins with an underscore."""
        await self._manager.client_adapter.notify_extension(method, params)
