"""Reads the frames of the agent's connection: its updates as they are, and ids of messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from accord.text import lenient_json
from accord.transports.base import Frame

# Called with the session id of an update, the update and the `_meta` of its notification.
OnUpdate: TypeAlias = Callable[[str, Raw, Raw | UnsetType], None]

_PERMISSIONS = 64  # requests that are remembered


class _Head(Struct):
    method: Any = UNSET
    id: Any = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET


class _Update(Struct):
    update: Raw
    session_id: str = field(name="sessionId")
    meta: Raw | UnsetType = field(name="_meta", default=UNSET)


class _Result(Struct):
    message_id: Any = field(name="messageId", default=None)


_head = msgspec.json.Decoder(_Head)
_heads = msgspec.json.Decoder(list[_Head])
_update = msgspec.json.Decoder(_Update)
_result = msgspec.json.Decoder(_Result)


class AgentFrames:
    """An observer of the connection to the agent."""

    def __init__(self, on_update: OnUpdate, on_message_id: Callable[[str], None]) -> None:
        self._on_update = on_update
        self._on_message_id = on_message_id
        self._prompt_id: Any = UNSET  # of the last `session/prompt`
        self._permissions: deque[Raw] = deque(maxlen=_PERMISSIONS)

    def observe(self, direction: Literal["received", "sent"], frame: Frame) -> None:
        """Take notice of a frame."""
        if direction == "sent":
            if b'"session/prompt"' in frame[:200]:
                for head in _decoded(frame):
                    if head.method == "session/prompt":
                        self._prompt_id = head.id
            return
        for head in _decoded(frame):
            self._received(head)

    def _received(self, head: _Head) -> None:
        if head.method == "session/update" and head.params is not UNSET:
            try:
                found = _update.decode(head.params)
            except msgspec.MsgspecError:
                return  # the connection reports it
            self._on_update(found.session_id, found.update, found.meta)
        elif head.method == "session/request_permission" and head.params is not UNSET:
            self._permissions.append(head.params)
        elif head.method is UNSET and head.result is not UNSET and head.id == self._prompt_id:
            try:
                message_id = _result.decode(head.result).message_id
            except msgspec.MsgspecError:
                return
            if isinstance(message_id, str):
                self._on_message_id(message_id)

    def permission_params(self, matches: Callable[[Any], bool]) -> dict[str, Any] | None:
        """Return the params of the oldest permission request that matches, once."""
        for raw in self._permissions:
            params = msgspec.json.decode(raw)
            if lenient_json.is_object(params) and matches(params):
                self._permissions.remove(raw)
                return params
        return None


def _decoded(frame: Frame) -> Iterator[_Head]:
    try:
        yield _head.decode(frame)
        return
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    try:
        if frame.lstrip()[:1] == b"[":
            yield from _heads.decode(frame)
            return
        text = lenient_json.dumps(lenient_json.loads(frame))  # for example an unpaired surrogate
        yield _head.decode(text)
    except (lenient_json.NotJson, msgspec.MsgspecError, UnicodeDecodeError):
        return
