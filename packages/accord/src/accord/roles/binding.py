"""Binds role objects to connections: what a class overrides is what it serves.

The `ProtocolSpec` of a role describes its version. A `LazyRole` is created, and perhaps imported,
once its version is chosen.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from msgspec import Raw, Struct

from accord.connection.connection import Connection
from accord.connection.routes import Context, Route, Routes, not_served
from accord.errors import (
    BacklogExceeded,
    DecodeError,
    InvalidParams,
    LocalProtocolError,
    RequestError,
)
from accord.jsonrpc.message import RequestId
from accord.roles.remote import Remote
from accord.rules.gates import closed_methods, is_open, opening
from accord.version import ProtocolVersion
from accord.wire.codec import convert, decoder
from accord.wire.protocol import Method, ProtocolSpec, Side

log: logging.Logger = logging.getLogger("accord.connection.connection")

# Makes the context of a handler from the connection, the request's id and what calls the peer.
ContextFactory: TypeAlias = Callable[[Connection, RequestId, Any], Context]
RemoteT_co = TypeVar("RemoteT_co", bound=Remote, covariant=True)
RemoteT = TypeVar("RemoteT", bound=Remote)
T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


class AgentContext(Context, Generic[RemoteT]):
    """What an agent's handler receives in addition to the params: the client, to call."""

    __slots__ = ("client",)

    def __init__(self, connection: Connection, request_id: RequestId, client: RemoteT) -> None:
        super().__init__(connection, request_id)
        self.client: RemoteT = client

    def cancel_prompts(self, session_id: str) -> None:
        """Cancel the prompt handlers of a session (R-CANCEL-05, R-CANCEL-13)."""
        self.connection.cancel_where(
            lambda method, params: method == "session/prompt" and params.session_id == session_id
        )


class ClientContext(Context, Generic[RemoteT]):
    """What a client's handler receives in addition to the params: the agent, to call."""

    __slots__ = ("agent",)

    def __init__(self, connection: Connection, request_id: RequestId, agent: RemoteT) -> None:
        super().__init__(connection, request_id)
        self.agent: RemoteT = agent


class Role(Generic[RemoteT_co]):
    """Base class of the roles that users subclass: it serves the methods that are overridden.

    A class that sets `side` only declares methods. `remote_class` calls the other side, and
    `context_class` is the type of the second argument of handlers.
    """

    spec: ProtocolSpec
    side: ClassVar[Side]
    always_served: ClassVar[frozenset[str]] = frozenset()
    remote_class: type[RemoteT_co]
    context_class: ClassVar[ContextFactory]
    served: frozenset[str] | None = None  # calls; None: those whose methods are overridden

    def handler(self, call: str) -> Callable[[Any, Any], Any]:
        """Return what serves a call; by default the method of that name."""
        return getattr(self, call)

    def extension_request(self, method: str, params: Any, context: Any) -> Any:
        """Serve a request whose method begins with an underscore; params are builtin values."""
        raise not_served(method, True)

    def extension_notification(self, method: str, params: Any, context: Any) -> Any:
        """Handle a notification whose method begins with an underscore; ignored by default."""

    def on_unknown_method(self, method: str) -> None:
        """Called when a method arrives that this side does not serve; its name is not checked."""

    def on_undecodable_notification(self, method: str, params: Any, error: DecodeError) -> None:
        """Called when a notification does not fit its type, with builtin params (A-30).

        The notification is dropped and the session continues.
        """

    def backlog_exceeded(self, session_id: str | None, error: BacklogExceeded) -> None:
        """Called when messages of a session are dropped because its handlers are too slow.

        The calls of the session have failed with this error. Delivery continues once the
        running handler has returned.
        """


def check_offered_methods(role: Role[Any], offer: str, *calls: str) -> None:
    """Raise `LocalProtocolError` unless a role serves the methods that an attribute implies."""
    by_call = {method.call: method for method in role.spec.methods}
    if absent := [call for call in calls if not _serves(role, by_call[call])]:
        raise LocalProtocolError(
            f"{type(role).__name__} has {offer}, so it has to serve {', '.join(absent)} too"
        )


def _serves(role: Role[Any], method: Method) -> bool:
    """Return True if a role serves a method: it overrides it, or always serves it."""
    if method.to != role.side:
        return False
    if role.served is not None:
        return method.call in role.served
    if method.call in role.always_served:
        return True
    owner = next((cls for cls in type(role).__mro__ if method.call in cls.__dict__), None)
    return owner is not None and "side" not in owner.__dict__


def derived_capabilities(role: Role[Any]) -> Any:
    """Return the capabilities that the served methods of a role imply.

    Raise `LocalProtocolError` if a role serves only some of the methods of a capability.
    """
    spec = role.spec
    by_gate: dict[str, list[Method]] = {}
    for method in spec.methods:
        if method.gate is not None and method.to == role.side:
            by_gate.setdefault(method.gate, []).append(method)
    gates: list[str] = []
    for gate, methods in by_gate.items():
        served = [method for method in methods if _serves(role, method)]
        if not any(method.call not in role.always_served for method in served):
            continue
        absent = [m.call for m in methods if m not in served and m.call not in spec.optional]
        if absent:
            raise LocalProtocolError(
                f"{type(role).__name__} serves {served[0].call}, so it has to serve "
                f"{', '.join(absent)} too: the capability {gate} covers all of them"
            )
        gates.append(gate)
        gates += [spec.extra_gates[m.call] for m in served if m.call in spec.extra_gates]
    for gate in gates:
        # A nested capability implies the one that contains it.
        for whole, methods in by_gate.items():
            if gate.startswith(f"{whole}.") and whole not in gates:
                raise LocalProtocolError(
                    f"{type(role).__name__} offers {gate}, so it has to serve "
                    f"{', '.join(m.call for m in methods if m.call not in spec.optional)} too"
                )
    own = [gate for gate in gates if gate.startswith(f"{role.side}.")]
    return opening(spec.capability_types[role.side], role.side, own, convert)


def routes_for(
    role: Role[Any],
    capabilities: Mapping[str, Any],
    context: Callable[[RequestId], Context],
) -> Routes:
    """Return the routes of a role on an initialized connection."""
    spec = role.spec
    closed = closed_methods(spec.methods, capabilities)
    requests: dict[str, Route] = {}
    notifications: dict[str, Route] = {}
    for method in spec.methods:
        if method.name in closed or method.name == "initialize" or not _serves(role, method):
            continue
        table = requests if method.is_request else notifications
        table[method.name] = _route(role, method, capabilities)
    early = _EarlySpellings(spec, requests, notifications)

    def fallback(method: str, is_request: bool) -> Route | RequestError:
        if method.startswith("_") and (route := _extension(role, method, is_request)):
            return route
        if route := early.route(method, is_request):
            return route
        role.on_unknown_method(method)
        return not_served(method, is_request)

    def on_undecodable(method: str, text: bytes, error: DecodeError) -> None:
        with suppress(DecodeError):  # nested too deeply for any decoder
            role.on_undecodable_notification(method, decoder(Any)(text), error)

    return Routes(
        requests=requests,
        notifications=notifications,
        context=context,
        fallback=fallback,
        lenient_decode=early.decode,
        on_undecodable=on_undecodable,
        on_backlog_exceeded=role.backlog_exceeded,
    )


def _route(role: Role[Any], method: Method, capabilities: Mapping[str, Any]) -> Route:
    """Return the route of a method; its decoder is compiled on first use."""

    def compile_and_decode(text: bytes | Raw) -> Any:
        param_gates = role.spec.param_gates.get(method.call)
        route.decode = _checked(decoder(method.params), param_gates, capabilities)
        return route.decode(text)

    route = Route(
        decode=compile_and_decode,
        handler=role.handler(method.call),
        cancelled_result=role.spec.cancelled_results.get(method.name),
        empty_result=partial(_empty_result, method),
    )
    return route


def _empty_result(method: Method) -> Any:
    """Return the empty result (R-GEN-10); raise `TypeError` if the type has required fields."""
    try:
        return method.result()
    except TypeError:
        raise TypeError(f"The handler of {method.name} returned None") from None


def _checked(
    decode: Callable[[bytes | Raw], Any],
    param_gates: Callable[[Any], Iterable[tuple[str, str]]] | None,
    capabilities: Mapping[str, Any],
) -> Callable[[bytes | Raw], Any]:
    """Return a decoder that refuses params which need a missing capability (R-INIT-29)."""
    if param_gates is None:
        return decode

    def decode_checked(text: bytes | Raw) -> Any:
        params = decode(text)
        for what, gate in param_gates(params):
            if not is_open(gate, capabilities):
                _, _, kind = what.partition(" of type ")  # R-MCP-15 asks for it
                data = {"gate": gate, "type": kind.strip("'")} if kind else {"gate": gate}
                raise InvalidParams(f"Invalid params: {what} was not offered", data=data)
        return params

    return decode_checked


def _extension(role: Role[Any], method: str, is_request: bool) -> Route | None:
    handle = role.extension_request if is_request else role.extension_notification
    return Route(
        decode=decoder(Any), handler=lambda params, context: handle(method, params, context)
    )


class _EarlySpellings:
    """Accepts the method names and params of early programs (catalogue 11)."""

    def __init__(
        self, spec: ProtocolSpec, requests: Mapping[str, Route], notifications: Mapping[str, Route]
    ) -> None:
        self._spec = spec
        self._requests = requests
        self._notifications = notifications
        self._seen: set[str] = set()

    def route(self, method: str, is_request: bool) -> Route | None:
        modern = self._spec.legacy_methods.get(method)
        if modern is None:
            return None
        self._note(method)
        return (self._requests if is_request else self._notifications).get(modern)

    def decode(self, method: str, text: bytes) -> Any | None:
        params = decoder(Any)(text)
        modern, rewritten = self._spec.translate_early(method, params)
        if rewritten is params:
            return None
        self._note(f"params of {method}")
        method_now = next(m for m in self._spec.methods if m.name == modern)
        return convert(rewritten, method_now.params)

    def _note(self, what: str) -> None:
        if what not in self._seen:
            self._seen.add(what)
            log.info("< early spelling: %s", what)


class LazyRole(Struct, Generic[RemoteT_co], frozen=True):
    """A role of a version; `make` returns it when the version is chosen."""

    version: ProtocolVersion
    make: Callable[[], Role[RemoteT_co]]


class RolesByVersion:
    """The roles of one side, at most one for each version."""

    def __init__(self, roles: Sequence[Role[Any] | LazyRole[Any]], side: Side) -> None:
        for role in roles:
            # Passing a class or a role of the other side is an easy mistake.
            if not isinstance(role, LazyRole) and (isinstance(role, type) or role.side != side):
                raise TypeError(f"Expected role objects of the {side}, got {role!r}")
        self._roles: dict[ProtocolVersion, Role[Any] | LazyRole[Any]] = {
            role.version if isinstance(role, LazyRole) else role.spec.version: role
            for role in roles
        }
        if not roles or len(self._roles) != len(roles):
            raise ValueError("Expected one role object, or one of each protocol version")

    @property
    def versions(self) -> frozenset[ProtocolVersion]:
        """The versions of the roles."""
        return frozenset(self._roles)

    def get(self, version: ProtocolVersion) -> Any:
        """Return the role of a version; a lazy one is made on the first call."""
        role = self._roles[version]
        if isinstance(role, LazyRole):
            role = self._roles[version] = role.make()
        return role
