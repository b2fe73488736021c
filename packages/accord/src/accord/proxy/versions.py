"""What proxies need to know about each version, imported when a chain has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from msgspec import Raw, Struct

from accord.agent.shared_updates import option_to_wire
from accord.client.agent_adapter import AgentAdapter
from accord.client.event_stream import UpdateReader
from accord.client.events import ToolCall
from accord.proxy.updates import UpdateEditor
from accord.wire.codec import decoder
from accord.wire.protocol import Method, ProtocolSpec


class ProxiedVersion(Struct, frozen=True):
    """One version: its types and methods, and how its updates are read and changed."""

    number: int
    types: Any
    spec: ProtocolSpec
    methods: dict[str, Method]  # by their names in Python
    editor: UpdateEditor
    adapter: AgentAdapter  # for conversions
    tool_updates: tuple[type, ...]
    apply_tool_call: Callable[[Any, Any], ToolCall | None]

    def decode(self, tp: Any, text: Raw) -> Any:
        """Return JSON text as a type of the version."""
        return decoder(tp)(text)

    @property
    def read(self) -> UpdateReader:
        """Return the events of an update."""
        return self.adapter.events_from_update


_OPTION_FIELDS = {
    1: {"id_field": "id", "group_field": "group"},
    2: {"id_field": "config_id", "group_field": "group_id"},
}


@cache
def proxied_version(number: int) -> ProxiedVersion:
    """Return a version; raise `ValueError` for one that is unknown."""
    unused = cast("Any", None)  # the adapter is only used for conversions
    if number == 1:
        from accord import v1
        from accord.agent.v1 import updates as agent_updates_v1
        from accord.client.v1 import updates as client_updates_v1
        from accord.client.v1.agent_adapter import AgentAdapterV1
        from accord.types import convert_v1
        from accord.v1.methods import SPEC as SPEC_V1

        return _version(
            1, v1, SPEC_V1, AgentAdapterV1(unused), client_updates_v1, agent_updates_v1, convert_v1
        )
    if number == 2:
        from accord import v2
        from accord.agent.v2 import updates as agent_updates_v2
        from accord.client.v2 import updates as client_updates_v2
        from accord.client.v2.agent_adapter import AgentAdapterV2
        from accord.types import convert_v2
        from accord.v2.methods import SPEC as SPEC_V2

        return _version(
            2, v2, SPEC_V2, AgentAdapterV2(unused), client_updates_v2, agent_updates_v2, convert_v2
        )
    raise ValueError(f"Unknown protocol version: {number}")


def _version(
    number: int,
    types: Any,
    spec: ProtocolSpec,
    adapter: AgentAdapter,
    client_updates: Any,
    agent_updates: Any,
    convert: Any,
) -> ProxiedVersion:
    editor = UpdateEditor(
        types,
        client_updates.events_from_update,
        convert.content_from_wire,
        convert.content_to_wire,
        convert.tool_content_to_wire,
        agent_updates.commands_to_wire,
        lambda option: option_to_wire(types, option, **_OPTION_FIELDS[number]),
    )
    methods = {method.call: method for method in spec.methods}
    names = ("ToolCall", "ToolCallUpdate", "ToolCallContentChunk")
    tool_updates = tuple(getattr(types, name) for name in names if hasattr(types, name))
    return ProxiedVersion(
        number,
        types,
        spec,
        methods,
        editor,
        adapter,
        tool_updates,
        client_updates.apply_tool_call,
    )
