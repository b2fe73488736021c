"""JSON-RPC 2.0 without I/O: `message` decodes frames, `peer` turns them into events."""

__all__ = ()
