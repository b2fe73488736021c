"""Binds role objects to connections: what a class overrides is what it serves.

Nothing here knows a method or a version by name; a `Kit` tells what one version has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any, ClassVar

from msgspec import UNSET, Raw, Struct
from msgspec.structs import fields

from accord.connection.connection import Connection
from accord.connection.routes import Context, Route, Routes, not_served
from accord.errors import (
    BacklogExceeded,
    DecodeError,
    InvalidParams,
    LocalProtocolError,
    NotOffered,
    RequestError,
)
from accord.jsonrpc.message import RequestId
from accord.rules.gates import closed_methods, closed_variants, is_open, opening
from accord.rules.quirks import tolerates
from accord.version import ProtocolVersion
from accord.wire.codec import convert, decoder
from accord.wire.method import Method, Side

__all__ = (
    "ProtocolSpec",
    "Remote",
    "Role",
    "check_offered_methods",
    "derived_capabilities",
    "routes_for",
)

log = logging.getLogger("accord.connection.connection")


class ProtocolSpec(Struct, frozen=True, kw_only=True):
    """What one protocol version has: its methods, its first call, its answers to a cancel.

    `legacy_methods` maps early spellings to methods; `modernize(method, params)` rewrites
    builtin params of an early spelling. `cancelled` makes, by method name, the result that
    stands for a cancelled request. `opened_by` names the gate that a call opens besides its own;
    `optional` the calls that may be missing where a gate is open. `needs` has, by call,
    what yields the parts of params that need an offer of their own, each with its gate.
    """

    version: ProtocolVersion
    methods: tuple[Method, ...]
    variant_gates: Mapping[type, str]
    initialize_request: type[Any]
    initialize_response: type[Any]
    agent_capabilities: Callable[[Any], Any]  # of an initialize result
    client_capabilities: Callable[[Any], Any]  # of initialize params
    cancelled_results: Mapping[str, Callable[[], Any]]
    extra_gates: Mapping[str, str]
    optional: frozenset[str] = frozenset()
    param_gates: Mapping[str, Callable[[Any], Iterable[tuple[str, str]]]]
    legacy_methods: Mapping[str, str]
    translate_early: Callable[[str, Any], tuple[str, Any]]


@tolerates("null-result")
@cache
def _result_decoder(tp: Any) -> Callable[[bytes | Raw], Any]:
    """Decode a result; null too where the type has no required field (R-GEN-10)."""
    decode = decoder(tp)
    if not hasattr(tp, "__struct_fields__") or any(field.required for field in fields(tp)):
        return decode

    def decode_or_empty(text: bytes | Raw) -> Any:
        try:
            return decode(text)
        except DecodeError:
            if bytes(text).strip() != b"null":
                raise
            return tp()

    return decode_or_empty


class Remote:
    """The other side of a connection, to call."""

    kit: ClassVar[ProtocolSpec]

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._methods = {method.call: method for method in self.kit.methods}
        self._closed: dict[str, str] | None = None  # None: initialize is not done
        self._closed_variants: dict[type, str] = {}
        self._capabilities: Mapping[str, Any] = {}

    def settle(self, capabilities: Mapping[str, Any]) -> None:
        """Open what the two sides have offered, and nothing else."""
        self._capabilities = capabilities
        self._closed = closed_methods(self.kit.methods, capabilities)
        self._closed_variants = closed_variants(self.kit.variant_gates, capabilities)

    def offers(self, call: str) -> bool:
        """Tell whether the two sides have offered what this method needs."""
        return self._closed is not None and self._methods[call].name not in self._closed

    async def _call(
        self, call: str, params: Any, on_result: Callable[[Any], None] | None = None
    ) -> Any:
        """Call; `told` gets the result before anything that came behind it is handled."""
        return await self._call_method(self._methods[call], params, on_result)

    async def _call_method(
        self, method: Method, params: Any, on_result: Callable[[Any], None] | None = None
    ) -> Any:
        self._check(method.name, params)
        if (needs := self.kit.param_gates.get(method.call)) is not None:
            for what, gate in needs(params):
                if not is_open(gate, self._capabilities):
                    raise NotOffered(f"{method.name} with {what}", gate)
        decode = self._decoder_for(method)
        return await self.connection.call(
            method.name,
            params,
            decode if on_result is None else _with_callback(decode, on_result),
            session=_session_of(params),
        )

    def _decoder_for(self, method: Method) -> Callable[[bytes | Raw], Any]:
        return _result_decoder(method.result)

    def _notify(self, name: str, params: Any) -> Coroutine[Any, Any, None]:
        self._check(name, params)
        return self.connection.notify(name, params)

    def _check(self, name: str, variant: object) -> None:
        """Raise `NotOffered` before anything is sent (R-INIT-29)."""
        if self._closed is None:
            raise LocalProtocolError(f"{name} was called before initialize was done")
        if name in self._closed:
            raise NotOffered(name, self._closed[name])
        if self._closed_variants and (gate := self._closed_variants.get(type(variant))):
            raise NotOffered(f"{name} with {type(variant).__name__}", gate)

    async def call_extension(self, method: str, params: Any = UNSET) -> Any:
        """Send an extension request and return its result as builtin values (R-EXT-04)."""
        _check_extension(method)
        return await self.connection.call(method, params, decoder(Any))

    async def notify_extension(self, method: str, params: Any = UNSET) -> None:
        """Send an extension notification (R-EXT-04)."""
        _check_extension(method)
        await self.connection.notify(method, params)


def _check_extension(method: str) -> None:
    if not method.startswith("_"):
        raise LocalProtocolError(f"The name of an extension begins with an underscore: {method!r}")


def _with_callback(
    decode: Callable[[bytes | Raw], Any], on_result: Callable[[Any], None]
) -> Callable[[bytes | Raw], Any]:
    def decode_and_tell(text: bytes | Raw) -> Any:
        result = decode(text)
        on_result(result)
        return result

    return decode_and_tell


def _session_of(params: Any) -> Any:
    return getattr(params, "session_id", None)


class Role:
    """Base of what users subclass: methods that are overridden are served."""

    kit: ClassVar[ProtocolSpec]
    side: ClassVar[Side]
    always_served: ClassVar[frozenset[str]] = frozenset()

    def extension_request(self, method: str, params: Any, context: Any) -> Any:
        """Serve a request whose method begins with an underscore; params are builtin values."""
        raise not_served(method, True)

    def extension_notification(self, method: str, params: Any, context: Any) -> Any:
        """Take a notification whose method begins with an underscore."""

    def on_undecodable_notification(self, method: str, params: Any, error: DecodeError) -> None:
        """Learn of a notification that does not fit its type, as builtin values (A-30).

        It is dropped and the session goes on.
        """

    def backlog_exceeded(self, session_id: str | None, error: BacklogExceeded) -> None:
        """Learn that messages of a session are not delivered: its handlers are too slow.

        Its calls have failed with this error. Once the handler that runs returns, what comes
        then is delivered again.
        """


def check_offered_methods(role: Role, offer: str, *calls: str) -> None:
    """Raise `LocalProtocolError` unless a role object serves what an offer of it stands for."""
    by_call = {method.call: method for method in role.kit.methods}
    if absent := [call for call in calls if not _serves(role, by_call[call])]:
        raise LocalProtocolError(
            f"{type(role).__name__} has {offer}, so it has to serve {', '.join(absent)} too"
        )


def _serves(role: Role, method: Method) -> bool:
    """Tell whether a role object serves a method: it is overridden, or has a default."""
    if method.to != role.side:
        return False
    if method.call in role.always_served:
        return True
    base = next(cls for cls in type(role).__mro__ if cls.__dict__.get("side") == role.side)
    return getattr(type(role), method.call) is not getattr(base, method.call)


def derived_capabilities(role: Role, cls: type[Any]) -> Any:
    """Return the capabilities that the methods of a role object stand for.

    Raise `LocalProtocolError` when only some of the methods of one capability are there.
    """
    kit = role.kit
    by_gate: dict[str, list[Method]] = {}
    for method in kit.methods:
        if method.gate is not None and method.to == role.side:
            by_gate.setdefault(method.gate, []).append(method)
    gates: list[str] = []
    for gate, methods in by_gate.items():
        served = [method for method in methods if _serves(role, method)]
        if not any(method.call not in role.always_served for method in served):
            continue
        absent = [m.call for m in methods if m not in served and m.call not in kit.optional]
        if absent:
            raise LocalProtocolError(
                f"{type(role).__name__} serves {served[0].call}, so it has to serve "
                f"{', '.join(absent)} too: the capability {gate} stands for all of them"
            )
        gates.append(gate)
        gates += [kit.extra_gates[m.call] for m in served if m.call in kit.extra_gates]
    for gate in gates:
        # To offer a part is to offer the whole that it is in.
        for whole, methods in by_gate.items():
            if gate.startswith(f"{whole}.") and whole not in gates:
                raise LocalProtocolError(
                    f"{type(role).__name__} offers {gate}, so it has to serve "
                    f"{', '.join(m.call for m in methods if m.call not in kit.optional)} too"
                )
    own = [gate for gate in gates if gate.startswith(f"{role.side}.")]
    return opening(cls, role.side, own, convert)


def routes_for(
    role: Role,
    capabilities: Mapping[str, Any],
    context: Callable[[RequestId], Context],
) -> Routes:
    """Return the routes of a role object on a connection that is initialized."""
    kit = role.kit
    closed = closed_methods(kit.methods, capabilities)
    requests: dict[str, Route] = {}
    notifications: dict[str, Route] = {}
    for method in kit.methods:
        if method.name in closed or method.name == "initialize" or not _serves(role, method):
            continue
        table = requests if method.is_request else notifications
        table[method.name] = _route(role, method, capabilities)
    early = _EarlySpellings(kit, requests, notifications)

    def missing(method: str, is_request: bool) -> Route | RequestError:
        if method.startswith("_") and (route := _extension(role, method, is_request)):
            return route
        if route := early.route(method, is_request):
            return route
        return not_served(method, is_request)

    def unreadable(method: str, text: bytes, error: DecodeError) -> None:
        with suppress(DecodeError):  # nested so deep that nobody can read it at all
            role.on_undecodable_notification(method, decoder(Any)(text), error)

    return Routes(
        requests=requests,
        notifications=notifications,
        context=context,
        fallback=missing,
        lenient_decode=early.decode,
        on_undecodable=unreadable,
        on_backlog_exceeded=role.backlog_exceeded,
    )


def _route(role: Role, method: Method, capabilities: Mapping[str, Any]) -> Route:
    """Return the route of a method; its decoder is compiled when it is first used."""

    def first(text: bytes | Raw) -> Any:
        needs = role.kit.param_gates.get(method.call)
        route.decode = _checked(decoder(method.params), needs, capabilities)
        return route.decode(text)

    route = Route(
        decode=first,
        handler=getattr(role, method.call),
        cancelled_result=role.kit.cancelled_results.get(method.name),
        empty_result=partial(_empty_result, method),
    )
    return route


def _empty_result(method: Method) -> Any:
    """Return the result that has nothing in it (R-GEN-10); raise `TypeError` if none may."""
    try:
        return method.result()
    except TypeError:
        raise TypeError(f"The handler of {method.name} returned None") from None


def _checked(
    decode: Callable[[bytes | Raw], Any],
    needs: Callable[[Any], Iterable[tuple[str, str]]] | None,
    capabilities: Mapping[str, Any],
) -> Callable[[bytes | Raw], Any]:
    """Refuse params that hold what was not offered (R-INIT-29)."""
    if needs is None:
        return decode

    def decode_checked(text: bytes | Raw) -> Any:
        params = decode(text)
        for what, gate in needs(params):
            if not is_open(gate, capabilities):
                _, _, kind = what.partition(" of type ")  # R-MCP-15 asks for it
                data = {"gate": gate, "type": kind.strip("'")} if kind else {"gate": gate}
                raise InvalidParams(f"Invalid params: {what} was not offered", data=data)
        return params

    return decode_checked


def _extension(role: Role, method: str, is_request: bool) -> Route | None:
    handle = role.extension_request if is_request else role.extension_notification
    return Route(
        decode=decoder(Any), handler=lambda params, context: handle(method, params, context)
    )


class _EarlySpellings:
    """Reads what early programs send, where ordinary reading failed (catalogue 11)."""

    def __init__(
        self, kit: ProtocolSpec, requests: Mapping[str, Route], notifications: Mapping[str, Route]
    ) -> None:
        self._kit = kit
        self._requests = requests
        self._notifications = notifications
        self._seen: set[str] = set()

    def route(self, method: str, is_request: bool) -> Route | None:
        modern = self._kit.legacy_methods.get(method)
        if modern is None:
            return None
        self._note(method)
        return (self._requests if is_request else self._notifications).get(modern)

    def decode(self, method: str, text: bytes) -> Any | None:
        params = decoder(Any)(text)
        modern, rewritten = self._kit.translate_early(method, params)
        if rewritten is params:
            return None
        self._note(f"params of {method}")
        method_now = next(m for m in self._kit.methods if m.name == modern)
        return convert(rewritten, method_now.params)

    def _note(self, what: str) -> None:
        if what not in self._seen:
            self._seen.add(what)
            log.info("< early spelling: %s", what)
