"""The Agent Client Protocol for Python.

`accord.v1` and `accord.v2` are the two versions of the protocol, complete and typed;
`accord.router` connects agents and clients of either.
"""

from __future__ import annotations

from accord.errors import (
    AccordError,
    AuthRequired,
    ConnectionClosed,
    ConnectionLost,
    DecodeError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MethodNotFound,
    NotOffered,
    ParseError,
    ProtocolError,
    RemoteProtocolError,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
    StartError,
    TransportError,
    UnsupportedVersion,
    VersionNotOffered,
)
from accord.version import __version__
from accord.wire.base import UNSET, Unknown

__all__ = (
    "UNSET",
    "AccordError",
    "AuthRequired",
    "ConnectionClosed",
    "ConnectionLost",
    "DecodeError",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "MethodNotFound",
    "NotOffered",
    "ParseError",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestError",
    "ResourceNotFound",
    "StartError",
    "TransportError",
    "Unknown",
    "UnsupportedVersion",
    "VersionNotOffered",
    "__version__",
)
