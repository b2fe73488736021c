"""Raw HTTP and WebSocket, for scenarios that send what no library would."""

__all__ = ()
