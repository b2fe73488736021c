"""Reads the messages of one protocol version as values of the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from accord import v1, v2
from accord.client import v1 as updates_v1
from accord.client import v2 as updates_v2
from accord.client.agent_adapter import AgentAdapter, OpenedSession, UpdateReader
from accord.client.events import ToolCall
from accord.client.transcript import Transcript
from accord.client.v1 import AgentAdapterV1
from accord.client.v2 import AgentAdapterV2
from accord.text import lenient_json
from accord.types import convert_v1, convert_v2
from accord.types.content import ContentBlock
from accord.types.session import SessionOption
from accord.version import ProtocolVersion
from accord.wire.codec import convert, decode


class _Details(Protocol):
    tool_call_id: str


class Wire:
    """The messages of a version that make a transcript. Its methods raise `DecodeError`."""

    def __init__(
        self,
        types: Any,
        adapter: AgentAdapter,
        read_update: UpdateReader,
        content: Callable[[Any], ContentBlock],
        apply_tool_call: Callable[[Any, Transcript], ToolCall | None],
    ) -> None:
        self.echoes_prompts: bool = adapter.echoes_prompts
        self.read_update: UpdateReader = read_update
        self._adapter = adapter
        self._content = content
        self._apply_tool_call = apply_tool_call
        self._types = types
        rows = {row.name: row for row in types.METHODS}
        self._update_type = rows["session/update"].params
        self._opened_types = {
            name: rows[name].result
            for name in ("session/new", "session/load", "session/resume", "session/fork")
            if name in rows
        }

    def update(self, params: msgspec.Raw) -> tuple[str, Any]:
        """Return the session id and the update of `session/update`."""
        decoded = decode(params, self._update_type)
        return decoded.session_id, decoded.update

    def prompt(self, blocks: Any) -> tuple[ContentBlock, ...]:
        """Return the content of a prompt."""
        decoded = convert(blocks, list[self._types.ContentBlock])
        return tuple(map(self._content, decoded))

    def opened(self, method: str, session_id: str, result: Any) -> OpenedSession:
        """Return what the response to a request contains that opens a session."""
        response = convert(result, self._opened_types[method])
        return self._adapter.opened_session(session_id, response)

    def options(
        self, options: Any, earlier: tuple[SessionOption, ...]
    ) -> tuple[SessionOption, ...]:
        """Return config options, and the modes among the earlier ones."""
        decoded = convert(options, list[self._types.SessionConfigOption])
        return self._adapter.keep_modes(tuple(self._adapter.options_from_wire(decoded)), earlier)

    def tool_call(self, details: Any, transcript: Transcript) -> tuple[str, ToolCall | None]:
        """Return the id of a tool call, and the call if the details change it."""
        decoded: _Details = convert(details, self._types.ToolCallDetails)
        return decoded.tool_call_id, self._apply_tool_call(decoded, transcript)


def wire_of(version: ProtocolVersion) -> Wire:
    """Return the reader of a version."""
    if version == 1:
        return Wire(
            v1,
            AgentAdapterV1(None),  # it calls nothing
            updates_v1.events_from_update,
            convert_v1.content_from_wire,
            updates_v1.apply_tool_call,
        )
    return Wire(
        v2,
        AgentAdapterV2(None),
        updates_v2.events_from_update,
        convert_v2.content_from_wire,
        updates_v2.apply_tool_call,
    )


def session_of(value: Any) -> str | None:
    """Return the session id in the params or the result of a message."""
    found = value.get("sessionId") if lenient_json.is_object(value) else None
    return found if isinstance(found, str) else None
