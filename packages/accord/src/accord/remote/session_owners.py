"""Gives each principal only its own sessions of an agent that runs as a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from accord.errors import InvalidRequest, RequestError, ResourceNotFound
from accord.remote.guarded_transport import FrameGuard
from accord.text.lenient_json import NotJson, dumps, is_array, is_object, loads
from accord.transports.base import Frame

_MAX_SESSIONS = 100_000  # the oldest are forgotten
_MAX_REQUESTS = 1000  # of one connection that are to open or to list sessions
_OPENING = frozenset({"session/new", "session/fork"})
_LISTING = "session/list"
# Also beginnings of other spellings of a key, see `McpGuard`.
_SIGNS = (b"session", b"\\u", "ſ".encode(), b"\0")


class _Update(Struct, rename="camel"):
    session_id: str | UnsetType = UNSET


class _Params(Struct, rename="camel"):
    session_id: str | UnsetType = UNSET
    update: _Update | UnsetType = UNSET


class _Sent(Struct):
    """What counts of a message of the agent."""

    id: int | str | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: _Params | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Sent).decode


class SessionOwners:
    """Which principal a session belongs to: the one that created it.

    The table is in memory: after a restart, earlier sessions cannot be used.
    """

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def add(self, session_id: str, principal: str) -> None:
        """Record the owner of a new session."""
        self._owners.setdefault(session_id, principal)
        if len(self._owners) > _MAX_SESSIONS:
            del self._owners[next(iter(self._owners))]

    def owner(self, session_id: str) -> str | None:
        """Return the principal that a session belongs to."""
        return self._owners.get(session_id)


class SessionOwnersGuard(FrameGuard):
    """Refuses messages that name sessions of others, and removes these from lists (R-SEC-05).

    A client also uses the sessions that the agent names in its messages to it, such as subagents.
    """

    def __init__(self, owners: SessionOwners, principal: str) -> None:
        self._owners = owners
        self._principal = principal
        self._announced: set[str] = set()
        self._opening: set[int | str] = set()  # requests of the client
        self._listing: set[int | str] = set()

    def concerns(self, frame: Frame) -> bool:
        lower = frame.lower()
        return any(sign in lower for sign in _SIGNS)

    async def refusal(self, message: dict[str, Any]) -> RequestError | None:
        keys = {key.casefold(): key for key in message}
        if "method" not in keys:
            return None  # a response
        if len(keys) < len(message) or any(key != given for key, given in keys.items()):
            return InvalidRequest("A key of the message has an unusual spelling")
        params = message.get("params")
        for key, value in params.items() if is_object(params) else ():
            if key.casefold() == "sessionid" and not self._may_use(value):
                return ResourceNotFound(data={"sessionId": value})
        self._expect(message["method"], message.get("id"))
        if len(self._opening) + len(self._listing) > _MAX_REQUESTS:
            return InvalidRequest("Too many requests without a response")
        return None

    def _expect(self, method: Any, request_id: Any) -> None:
        """Remember a request whose response names sessions."""
        if type(request_id) in (int, str):
            if method in _OPENING:
                self._opening.add(request_id)
            elif method == _LISTING:
                self._listing.add(request_id)

    def _may_use(self, session_id: Any) -> bool:
        if not isinstance(session_id, str):
            return True  # the agent refuses it
        return session_id in self._announced or self._owners.owner(session_id) == self._principal

    def outgoing(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        return [self._outgoing(frame) for frame in frames]

    def _outgoing(self, frame: Frame) -> Frame:
        try:
            sent = _decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return frame
        if sent.method is not UNSET:
            self._announce(sent.params)
        elif sent.id in self._opening:
            self._opening.discard(sent.id)
            self._opened(frame)
        elif sent.id in self._listing:
            self._listing.discard(sent.id)
            return self._own_only(frame)
        return frame

    def _announce(self, params: _Params | UnsetType) -> None:
        if params is UNSET or len(self._announced) > _MAX_SESSIONS:
            return
        if params.session_id is not UNSET:
            self._announced.add(params.session_id)
        if params.update is not UNSET and params.update.session_id is not UNSET:
            self._announced.add(params.update.session_id)

    def _opened(self, frame: Frame) -> None:
        result = _result_of(frame)
        session_id = result.get("sessionId")
        if isinstance(session_id, str):
            self._owners.add(session_id, self._principal)

    def _own_only(self, frame: Frame) -> Frame:
        """Return a list of sessions without those of others."""
        message = _message_of(frame)
        result = message.get("result")
        if not is_object(result):
            return frame  # an error
        sessions = result.get("sessions")
        own = [
            session
            for session in (sessions if is_array(sessions) else ())
            if is_object(session) and self._may_use(session.get("sessionId", ""))
        ]
        return dumps({**message, "result": {**result, "sessions": own}})


def _message_of(frame: Frame) -> dict[str, Any]:
    try:
        message = loads(frame)
    except NotJson:
        return {}
    return message if is_object(message) else {}


def _result_of(frame: Frame) -> dict[str, Any]:
    result = _message_of(frame).get("result")
    return result if is_object(result) else {}
