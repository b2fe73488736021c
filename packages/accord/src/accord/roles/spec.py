"""The table that describes one protocol version to the code that serves and calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from accord.version import ProtocolVersion
from accord.wire.method import Method, Side


class ProtocolSpec(Struct, frozen=True, kw_only=True):
    """One protocol version: its methods, the types of `initialize`, the results of cancelled calls.

    `capability_types` has the class of the capabilities of each side; `agent_capabilities` and
    `client_capabilities` return them from a result and from params of `initialize`.
    `cancelled_results` makes the result of a cancelled request, by method name. `extra_gates` names
    a gate that serving a call opens in addition to its own; `optional` the calls that an agent may
    omit although their gate is open. `param_gates` yields, by call, the parts of params that need a
    capability, each with its gate. `legacy_methods` maps early method names to current ones, and
    `translate_early(method, params)` rewrites builtin params of an early program.
    """

    version: ProtocolVersion
    methods: tuple[Method, ...]
    variant_gates: Mapping[type, str]
    initialize_request: type[Any]
    initialize_response: type[Any]
    capability_types: Mapping[Side, type[Any]]
    agent_capabilities: Callable[[Any], Any]
    client_capabilities: Callable[[Any], Any]
    cancelled_results: Mapping[str, Callable[[], Any]]
    extra_gates: Mapping[str, str]
    optional: frozenset[str] = frozenset()
    param_gates: Mapping[str, Callable[[Any], Iterable[tuple[str, str]]]]
    legacy_methods: Mapping[str, str]
    translate_early: Callable[[str, Any], tuple[str, Any]]

    def extended(self, methods: Iterable[Method], **changes: Any) -> ProtocolSpec:
        """Return a copy with further methods, and with other fields replaced.

        A method replaces the one of the same name and direction. To add capabilities, replace
        `capability_types`, `initialize_request` and `initialize_response` by subclasses.
        """
        added = tuple(methods)
        names = {(method.name, method.is_request) for method in added}
        kept = (m for m in self.methods if (m.name, m.is_request) not in names)
        return replace(self, methods=(*kept, *added), **changes)
