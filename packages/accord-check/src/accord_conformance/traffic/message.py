"""Parses frames: requests, responses, notifications, or invalid frames."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord_conformance.traffic.frame import Frame, Side

Json: TypeAlias = dict[str, Any]


class InvalidFrame(Struct, frozen=True):
    """A frame that is not a message; `why` is the reason."""

    frame: Frame
    why: Literal["not JSON", "not UTF-8", "batch", "JSON that is not a message"]


class RawMessage(Struct, frozen=True):
    """A frame that is an object with a method, a result or an error."""

    frame: Frame
    fields: Json

    @property
    def is_response(self) -> bool:
        return "method" not in self.fields


class Notification(Struct):
    """A notification; `params` are `{}` where it has none."""

    frame: Frame
    sender: Side
    method: str
    params: Any

    @property
    def session_id(self) -> str | None:
        """The session that it names."""
        return _session_id(self.params)


class Request(Struct, eq=False):
    """A request and its response; `cancelled` is the frame of a `$/cancel_request` for it."""

    frame: Frame
    sender: Side
    id: Any
    method: str
    params: Any
    version: int | None = None  # the agreed version when it was sent
    cancelled: Frame | None = None
    response: Response | None = None

    @property
    def session_id(self) -> str | None:
        """The session that it names."""
        return _session_id(self.params)

    @property
    def ok(self) -> bool:
        """Whether it was answered with a result."""
        return self.response is not None and self.response.error is None

    @property
    def result(self) -> Any:
        """The result; None if it has not arrived."""
        return (
            None if self.response is None or self.response.result is UNSET else self.response.result
        )

    @property
    def code(self) -> Any:
        """The code of the error, if it was answered with one."""
        error = self.response and self.response.error
        return error.get("code") if is_object(error) else None


class Response(Struct, frozen=True):
    """The response to a request; `error` is unchecked."""

    frame: Frame
    result: Any | UnsetType
    error: Any = None


def parse_frame(frame: Frame) -> RawMessage | InvalidFrame | None:
    """Parse a frame; return None if it is blank."""
    text = frame.text.strip()
    if not text:
        return None
    try:
        text.decode()
    except UnicodeDecodeError:
        return InvalidFrame(frame, "not UTF-8")
    try:
        value = lenient_json.loads(text)
    except lenient_json.NotJson:
        return InvalidFrame(frame, "not JSON")
    if is_array(value):
        return InvalidFrame(frame, "batch")
    if not is_object(value) or value.keys().isdisjoint(("method", "result", "error")):
        return InvalidFrame(frame, "JSON that is not a message")
    if not isinstance(value.get("method", ""), str):
        return InvalidFrame(frame, "JSON that is not a message")
    return RawMessage(frame, value)


def _session_id(params: Any) -> str | None:
    found = params.get("sessionId") if is_object(params) else None
    return found if isinstance(found, str) else None
