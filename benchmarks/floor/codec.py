"""Lines to structs and back: two native decodes, one native encode, no rules beyond types."""

from __future__ import annotations

from typing import Any

import msgspec
from floor import types as t

PARAMS = {
    "initialize": t.InitializeRequest,
    "session/new": t.NewSessionRequest,
    "session/prompt": t.PromptRequest,
    "session/cancel": t.CancelNotification,
    "session/update": t.SessionNotification,
    "session/request_permission": t.PermissionRequest,
    "fs/read_text_file": t.ReadRequest,
    "fs/write_text_file": t.WriteRequest,
    "terminal/create": t.CreateTerminalRequest,
    "terminal/output": t.TerminalRequest,
    "terminal/wait_for_exit": t.TerminalRequest,
    "terminal/release": t.TerminalRequest,
}
RESULTS = {
    "initialize": t.InitializeResponse,
    "session/new": t.NewSessionResponse,
    "session/prompt": t.PromptResponse,
    "session/request_permission": t.PermissionResponse,
    "fs/read_text_file": t.ReadResponse,
    "fs/write_text_file": t.Empty,
    "terminal/create": t.CreateTerminalResponse,
    "terminal/output": t.OutputResponse,
    "terminal/wait_for_exit": t.ExitStatus,
    "terminal/release": t.Empty,
}

decode_line = msgspec.json.Decoder(t.Incoming).decode
decode_params = {method: msgspec.json.Decoder(tp).decode for method, tp in PARAMS.items()}
decode_result = {method: msgspec.json.Decoder(tp).decode for method, tp in RESULTS.items()}
_encode = msgspec.json.Encoder().encode


def request(number: int, method: str, params: Any) -> bytes:
    """Return the line of a request."""
    return _encode(t.Request(number, method, params)) + b"\n"


def notification(method: str, params: Any) -> bytes:
    """Return the line of a notification."""
    return _encode(t.Notification(method, params)) + b"\n"


def response(number: Any, result: Any) -> bytes:
    """Return the line of an answer."""
    return _encode(t.Response(number, result)) + b"\n"


def error_response(number: Any, message: str) -> bytes:
    """Return the line of an answer that says what went wrong."""
    return _encode(t.ErrorResponse(number, t.Error(-32603, message))) + b"\n"
