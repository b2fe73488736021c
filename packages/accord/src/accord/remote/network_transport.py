"""The base class of a server's connections to clients."""

from __future__ import annotations

from accord.transports.base import Transport

# Close codes of WebSocket (R-WS-07).
NORMAL = 1000
GOING_AWAY = 1001
PROTOCOL_ERROR = 1002
POLICY_VIOLATION = 1008
INTERNAL = 1011


class NetworkTransport(Transport):
    """A connection that `aclose` ends with a code and a reason.

    The reason has at most 123 bytes and says nothing about the agent (R-WS-16).
    """

    close_code: int = NORMAL
    close_reason: str = ""

    @property
    def unsent_bytes(self) -> int:
        """The bytes of messages that wait for the client to read."""
        return 0
