"""Calls the other side of a connection."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from typing import Any, ClassVar

from msgspec import UNSET, Raw
from msgspec.structs import fields

from accord.connection.connection import Connection
from accord.errors import DecodeError, LocalProtocolError, NotOffered
from accord.rules.gates import closed_methods, closed_variants, is_open
from accord.rules.quirks import tolerates
from accord.wire.codec import decoder
from accord.wire.protocol import Method, ProtocolSpec


@tolerates("null-result")
@cache
def result_decoder(tp: Any) -> Callable[[bytes | Raw], Any]:
    """Return the decoder of a result; it accepts null if no field is required (R-GEN-10)."""
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
    """The other side of a connection.

    `initialized` is what it sent in `initialize`: the params of a client, the result of an agent.
    """

    spec: ClassVar[ProtocolSpec]

    def __init__(self, connection: Connection, initialized: Any) -> None:
        self.connection = connection
        self.initialized = initialized
        self._methods = {method.call: method for method in self.spec.methods}
        self._closed: dict[str, str] | None = None  # None: initialize has not finished
        self._closed_variants: dict[type, str] = {}
        self._capabilities: Mapping[str, Any] = {}

    def set_capabilities(self, capabilities: Mapping[str, Any]) -> None:
        """Allow the methods that the two sides support, and no others."""
        self._capabilities = capabilities
        self._closed = closed_methods(self.spec.methods, capabilities)
        self._closed_variants = closed_variants(self.spec.variant_gates, capabilities)

    def adopt(self, other: Remote) -> None:
        """Take over what another `Remote` of this version knows, apart from its connection."""
        self.initialized: Any = other.initialized
        self.set_capabilities(other._capabilities)

    def supports(self, call: str) -> bool:
        """Return True if the two sides have the capability that a method needs."""
        method = self._methods.get(call)
        return method is not None and self._closed is not None and method.name not in self._closed

    def _call(
        self,
        call: str,
        params: Any,
        on_result: Callable[[Any], None] | None = None,
        on_error: Callable[[], None] | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Send a request. `on_result` gets the result before any later message is handled.

        `on_error` is called in the same way for an error.
        """
        return self._call_method(self._methods[call], params, on_result, on_error)

    def _call_method(
        self,
        method: Method,
        params: Any,
        on_result: Callable[[Any], None] | None = None,
        on_error: Callable[[], None] | None = None,
    ) -> Coroutine[Any, Any, Any]:
        self._check(method.name, params)
        if (param_gates := self.spec.param_gates.get(method.call)) is not None:
            for what, gate in param_gates(params):
                if not is_open(gate, self._capabilities):
                    raise NotOffered(f"{method.name} with {what}", gate)
        decode = self._decoder_for(method)
        return self.connection.call(
            method.name,
            params,
            decode if on_result is None else _with_callback(decode, on_result),
            session=getattr(params, "session_id", None),
            **({} if on_error is None else {"on_error": on_error}),
        )

    def _decoder_for(self, method: Method) -> Callable[[bytes | Raw], Any]:
        return result_decoder(method.result)

    def _notify(self, name: str, params: Any) -> Coroutine[Any, Any, None]:
        self._check(name, params)
        return self.connection.notify(name, params)

    def _check(self, name: str, variant: object) -> None:
        """Raise `NotOffered` before anything is sent (R-INIT-29)."""
        if self._closed is None:
            raise LocalProtocolError(f"{name} was called before `initialize` succeeded")
        if name in self._closed:
            raise NotOffered(name, self._closed[name])
        if self._closed_variants and (gate := self._closed_variants.get(type(variant))):
            raise NotOffered(f"{name} with {type(variant).__name__}", gate)

    async def call_extension(
        self,
        method: str,
        params: Any = UNSET,
        *,
        on_result: Callable[[Any], None] | None = None,
    ) -> Any:
        """Send an extension request and return its result as builtin values (R-EXT-04).

        `on_result` gets the result before any later message is handled.
        """
        _check_extension(method)
        decode = decoder(Any)
        if on_result is not None:
            decode = _with_callback(decode, on_result)
        return await self.connection.call(method, params, decode)

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
    def decode_and_report(text: bytes | Raw) -> Any:
        result = decode(text)
        on_result(result)
        return result

    return decode_and_report
