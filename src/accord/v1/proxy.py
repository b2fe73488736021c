"""Between a conductor and a proxy of its chain (v1, unstable)."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from accord.v1.initialize import InitializeRequest, InitializeResponse
from accord.wire.base import Wire

__all__ = (
    "InitializeProxyRequest",
    "InitializeProxyResponse",
    "ProxySuccessorNotification",
    "ProxySuccessorRequest",
    "ProxySuccessorResponse",
)

InitializeProxyRequest: TypeAlias = InitializeRequest
InitializeProxyResponse: TypeAlias = InitializeResponse


class ProxySuccessorRequest(Wire):
    """A request of, or for, what comes after the proxy; `meta` is of this hop only."""

    __unstable__: ClassVar[bool] = True

    method: str
    params: Any = None


class ProxySuccessorNotification(Wire):
    """A notification of, or for, what comes after the proxy; `meta` is of this hop only."""

    __unstable__: ClassVar[bool] = True

    method: str
    params: Any = None


# The result of the request inside, unchanged.
ProxySuccessorResponse: TypeAlias = Any
