"""Giving up a request that was sent (v1)."""

from __future__ import annotations

from accord.v1.ids import RequestId
from accord.wire.base import Wire
from accord.wire.method import Method

__all__ = ("CancelRequestNotification",)


class CancelRequestNotification(Wire):
    """Asks the peer to give up a request of this side's; it is answered all the same."""

    request_id: RequestId


METHODS: tuple[Method, ...] = (
    Method(
        name="$/cancel_request",
        call="cancel_request",
        params=CancelRequestNotification,
        to="protocol",
    ),
)
