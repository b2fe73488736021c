"""Role objects on a connection, and the handshake that chooses their version."""

__all__ = ()
