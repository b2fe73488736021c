"""The dialects of the connection between a conductor and a proxy: names of methods, and envelopes.

Messages to and from the proxy's successor are wrapped; those of its client are plain.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from accord.text.lenient_json import is_object
from accord_conformance.harness.raw_hop import Field, HopMessage, decoded

_SUCCESSORS = (
    "proxy/successor",
    "_proxy/successor",
    "_proxy/successor/request",
    "_proxy/successor/notification",
)


class Envelope(Struct):
    """A wrapped message: its method and its params, as bytes."""

    method: str
    params: Field = UNSET


class Dialect(Struct, frozen=True, kw_only=True):
    """How a component names the methods of a chain."""

    name: str
    initialize: str
    request: str
    notification: str
    marks_proxies: bool = False  # in `_meta` of `initialize`

    def initialize_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the params that initialize a proxy."""
        if not self.marks_proxies:
            return params
        meta = params.get("_meta")
        return {**params, "_meta": {**(meta if is_object(meta) else {}), "proxy": True}}

    def wrap(
        self, method: str, params: bytes | None, *, is_request: bool, meta: bytes | None = None
    ) -> tuple[str, bytes]:
        """Return the method and the params of a wrapped message."""
        members = [b'"method":%s' % msgspec.json.encode(method)]
        if params is not None:
            members.append(b'"params":%s' % params)
        if meta is not None:
            members.append(b'"_meta":%s' % meta)
        return self.request if is_request else self.notification, b"{%s}" % b",".join(members)

    def names(self, message: HopMessage) -> bool:
        """Whether the method of a wrapped message is that of this dialect."""
        return message.method == (self.notification if message.id is UNSET else self.request)


DIALECTS = {
    one.name: one
    for one in (
        Dialect(
            name="acp",
            initialize="proxy/initialize",
            request="proxy/successor",
            notification="proxy/successor",
        ),
        Dialect(
            name="rust",
            initialize="_proxy/initialize",
            request="_proxy/successor",
            notification="_proxy/successor",
        ),
        Dialect(
            name="thinkwell",
            initialize="initialize",
            request="_proxy/successor/request",
            notification="_proxy/successor/notification",
            marks_proxies=True,
        ),
    )
}


def is_wrapped(method: str | UnsetType) -> bool:
    """Whether a method carries a message to or from the successor, in any dialect."""
    return method in _SUCCESSORS


def unwrap(params: Field) -> Envelope | None:
    """Return the message in the params of a wrapped one; None if there is none."""
    try:
        return None if params is UNSET else msgspec.json.decode(params, type=Envelope)
    except msgspec.DecodeError:
        return None


def cancelled_id(params: Field) -> Any:
    """Return the id that `$/cancel_request` names."""
    value = decoded(params)
    return value.get("requestId") if is_object(value) else None
