"""The base of the typed proxies of both versions: one method for each method of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from accord.wire.protocol import Method, ProtocolSpec

ParamsT = TypeVar("ParamsT", contravariant=True)
ResultT = TypeVar("ResultT", covariant=True)
T = TypeVar("T")
# What a method for a notification returns: the params, or None to drop the notification.
Edited: TypeAlias = T | None | Awaitable[T | None]


class Forward(Protocol[ParamsT, ResultT]):
    """Passes a request on and returns its result; raises `RequestError` for an error response.

    Without params, the request is passed on as the bytes that were received. It can be called
    again, to repeat the request.
    """

    def __call__(self, params: ParamsT | None = None) -> Awaitable[ResultT]: ...


class TypedProxy:
    """A proxy of one version. Methods that are not overridden pass on the bytes received.

    A method for a request gets the params and `forward`, and returns the result. A method for a
    notification gets the params, and returns them, changed ones, or None to drop it.
    """

    spec: ClassVar[ProtocolSpec]

    def extension_request(self, method: str, params: Any, forward: Forward[Any, Any]) -> Any:
        """Handle an extension request of either side; params and result are builtin values."""
        return forward()

    def extension_notification(self, method: str, params: Any) -> Any:
        """Handle an extension notification of either side; return its params, None to drop it."""
        return params


def proxied_methods(proxy: TypedProxy) -> list[Method]:
    """Return the methods of the protocol that a proxy overrides."""
    base = next(cls for cls in type(proxy).__mro__ if "spec" in vars(cls))
    return [
        method
        for method in proxy.spec.methods
        if method.to in ("agent", "client")
        and getattr(type(proxy), method.call, None) is not getattr(base, method.call, None)
    ]
