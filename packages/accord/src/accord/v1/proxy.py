"""The handshake of a proxy: the same as that of an agent (v1, unstable)."""

from __future__ import annotations

from typing import TypeAlias

from accord.v1.initialize import InitializeRequest, InitializeResponse
from accord.wire.method import Method

__all__ = ("InitializeProxyRequest", "InitializeProxyResponse")

InitializeProxyRequest: TypeAlias = InitializeRequest
InitializeProxyResponse: TypeAlias = InitializeResponse


METHODS: tuple[Method, ...] = (
    Method(
        name="proxy/initialize",
        call="initialize_proxy",
        params=InitializeProxyRequest,
        result=InitializeProxyResponse,
        to="proxy",
        unstable=True,
    ),
)
