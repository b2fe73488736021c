"""The names by which a conductor and a proxy exchange the messages of the proxy's successor.

`acp` is the schema of the protocol, `rust` the official Rust SDK, `thinkwell` the npm package
`@thinkwell/conductor`. All forms are accepted; the dialect of a component decides what is sent.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import InvalidParams
from accord.proxy.stage import Params, raw_json
from accord.text import lenient_json

DialectName: TypeAlias = Literal["acp", "rust", "thinkwell"]


class Dialect(Struct, frozen=True):
    """How a component names its initialization and the messages of its successor."""

    name: DialectName
    initialize: str
    request: str
    notification: str


ACP: Dialect = Dialect("acp", "proxy/initialize", "proxy/successor", "proxy/successor")
RUST: Dialect = Dialect("rust", "_proxy/initialize", "_proxy/successor", "_proxy/successor")
THINKWELL: Dialect = Dialect(
    "thinkwell", "initialize", "_proxy/successor/request", "_proxy/successor/notification"
)
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (ACP, RUST, THINKWELL)}
# By the method of a message: the dialect that uses it.
PROXY_INITIALIZE: dict[str, Dialect] = {ACP.initialize: ACP, RUST.initialize: RUST}
SUCCESSOR: dict[str, Dialect] = {
    ACP.request: ACP,
    RUST.request: RUST,
    THINKWELL.request: THINKWELL,
    THINKWELL.notification: THINKWELL,
}


class _Envelope(Struct, gc=False):
    """A wrapped message; the envelope's `_meta` is of this hop only (R-PROXY-16)."""

    method: str
    params: Raw | UnsetType = UNSET


_CONTAINERS = b"{["
_NULL = ord("n")
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_encode_plain = msgspec.json.Encoder().encode


def wrap(method: str, params: Params) -> Raw:
    """Return the params of a message to or from a successor, with the given ones unchanged."""
    head = b'{"method":%b' % _encode_plain(method)
    return Raw(head + b"}" if params is UNSET else b'%b,"params":%b}' % (head, params))


def unwrap(params: Params) -> tuple[str, Params]:
    """Return the method and the params of a wrapped message; raise `InvalidParams` (R-PROXY-15)."""
    try:
        envelope = _decode_envelope(params)  # type: ignore[arg-type]  # UNSET: caught
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
        return _unwrap_leniently(params)
    inner = envelope.params
    if inner is UNSET:
        return envelope.method, UNSET
    first = memoryview(inner)[0]
    if first in _CONTAINERS:
        return envelope.method, inner
    if first == _NULL:  # null and absent are equal
        return envelope.method, UNSET
    raise InvalidParams("The params of a wrapped message are an object or an array")


def _unwrap_leniently(params: Params) -> tuple[str, Params]:
    """Read what msgspec rejects, such as lone surrogates in the method."""
    try:
        value = None if params is UNSET else lenient_json.loads(bytes(params))
    except lenient_json.NotJson:
        value = None
    if not lenient_json.is_object(value) or not isinstance(value.get("method"), str):
        raise InvalidParams("A wrapped message has a method, and params that are an object")
    inner = value.get("params")
    if inner is None:
        return value["method"], UNSET
    if not lenient_json.is_object(inner) and not lenient_json.is_array(inner):
        raise InvalidParams("The params of a wrapped message are an object or an array")
    text = b"" if params is UNSET else lenient_json.member_texts(bytes(params)).get("params")
    return value["method"], Raw(text) if text else raw_json(inner)


# Thinkwell marks `initialize`, and the answer of a proxy, instead of naming another method. Also
# what a proxy sends on is marked, since the conductor passes it to the next component as it is.


def marked_as_proxy(value: Params) -> Raw:
    """Return the params or the result of `initialize` with `_meta.proxy`."""
    parts = _object(value)
    meta = parts.get("_meta")
    parts["_meta"] = {**(meta if lenient_json.is_object(meta) else {}), "proxy": True}
    return raw_json(parts)


def is_proxy_initialize(value: Params) -> bool:
    """Return whether params of `initialize`, or its result, have `_meta.proxy`."""
    meta = _object(value).get("_meta")
    return lenient_json.is_object(meta) and meta.get("proxy") is True


def unmarked(value: Raw) -> Raw:
    """Return the params or the result of `initialize` without `_meta.proxy`."""
    if not is_proxy_initialize(value):
        return value
    parts = _object(value)
    parts["_meta"] = {key: item for key, item in parts["_meta"].items() if key != "proxy"}
    if not parts["_meta"]:
        del parts["_meta"]
    return raw_json(parts)


def _object(text: Params) -> dict[str, Any]:
    try:
        value = None if text is UNSET else lenient_json.loads(bytes(text))
    except lenient_json.NotJson:
        value = None
    return value if lenient_json.is_object(value) else {}
