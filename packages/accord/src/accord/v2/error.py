"""Errors as they travel in answers and at the end of work (v2)."""

from __future__ import annotations

from typing import Any, TypeAlias

from accord.v2.ids import ProtocolVersion, SessionId
from accord.wire.base import Bare, ByShape, Int32, Lenient, Wire

__all__ = (
    "Error",
    "ErrorCode",
    "ErrorData",
    "SessionNotFoundErrorData",
    "UnsupportedProtocolVersionErrorData",
)

# -32700 parse error, -32600 invalid request, -32601 method not found, -32602 invalid params,
# -32603 internal error, -32800 request cancelled, -32000 authentication required,
# -32002 resource not found, -32022 unsupported protocol version; any other may come.
ErrorCode: TypeAlias = Int32


class UnsupportedProtocolVersionErrorData(Wire):
    """The requested version, and those that the agent supports."""

    requested: ProtocolVersion
    supported: list[ProtocolVersion]


class SessionNotFoundErrorData(Wire):
    """The session that does not exist."""

    session_id: SessionId


ErrorData: TypeAlias = ByShape[UnsupportedProtocolVersionErrorData | SessionNotFoundErrorData | Any]


class Error(Bare):
    """An error; `message` is one short sentence, `data` any JSON."""

    code: ErrorCode
    message: str
    data: Lenient[ErrorData | None] = None
