"""A version of the protocol as a table: its methods, and what else the roles need to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from accord.version import ProtocolVersion

Side = Literal["agent", "client", "protocol", "proxy"]


class Method(Struct, frozen=True, kw_only=True):
    """One method: `to` is the side that serves it; without `result` it is a notification.

    `call` is its name in Python. `gate` is the capability that it needs, usually of the serving
    side, as a dotted path that starts with `agent.` or `client.`. `doc` is the docstring of the
    method that serves it, and of the one that calls it if `caller_doc` is empty.
    """

    name: str
    call: str
    params: Any
    result: Any = None
    to: Side
    unstable: bool = False
    gate: str | None = None
    doc: str = ""
    caller_doc: str = ""

    @property
    def is_request(self) -> bool:
        return self.result is not None


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
