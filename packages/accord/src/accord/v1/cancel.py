"""Cancellation of requests (v1)."""

from __future__ import annotations

from accord.v1.ids import RequestId
from accord.wire.base import Wire
from accord.wire.method import Method

__all__ = ("CancelRequestNotification",)


class CancelRequestNotification(Wire):
    """Cancels a request that this side sent; it still gets a response."""

    request_id: RequestId


METHODS: tuple[Method, ...] = (
    Method(
        name="$/cancel_request",
        call="cancel_request",
        params=CancelRequestNotification,
        to="protocol",
    ),
)
