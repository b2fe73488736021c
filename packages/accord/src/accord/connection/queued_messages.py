"""What waits in a lane: a message or a response of the peer."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from accord.connection.routes import Route
from accord.jsonrpc.message import Response


class QueuedMessage(Struct, gc=False):
    """A message from the peer that waits in a lane."""

    route: Route
    method: str
    params: Any
    request_id: Any
    size: int

    @property
    def is_request(self) -> bool:
        return self.request_id is not UNSET


class QueuedResponse(Struct, gc=False):
    """A response from the peer that waits in a lane."""

    answer: Response
    method: str
    size: int
    is_request: bool = False
