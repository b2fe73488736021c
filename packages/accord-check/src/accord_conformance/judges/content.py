"""Content blocks: their data matches their type, in any message."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Evidence, Judge
from accord_conformance.traffic.frame import Side, other
from accord_conformance.traffic.message import Notification, Request
from accord_conformance.traffic.strict_types import format_value

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.*")
# Members with any content.
_FREE = ("_meta", "rawInput", "rawOutput", "data")


class Content(Judge):
    """R-CONT, R-PLAN-11, and the trace context in `_meta`."""

    rules = ("R-CONT-06", "R-PLAN-11", "R-EXT-02")

    def on_request(self, call: Request) -> None:
        self._value(call.params, call.sender, call)

    def on_notification(self, note: Notification) -> None:
        self._value(note.params, note.sender, note)

    def on_response(self, call: Request) -> None:
        self._value(call.result, other(call.sender), call)

    def _value(self, value: Any, by: Side, seen: Evidence) -> None:
        meta = value.get("_meta") if is_object(value) else None
        if is_object(meta) and "traceparent" in meta:
            parent = meta["traceparent"]
            self.judge(
                "R-EXT-02",
                isinstance(parent, str) and bool(_TRACEPARENT.fullmatch(parent)),
                seen,
                expected="`traceparent` in the format of the W3C",
                got=format_value(parent),
                by=by,
            )
        for found in _objects(value):
            self._object(found, by, seen)

    def _object(self, value: dict[str, Any], by: Side, seen: Evidence) -> None:
        for key, text in _encoded(value):
            self.judge(
                "R-CONT-06",
                _is_base64(text),
                seen,
                expected=f"Base64 as `{key}`",
                got=format_value(text),
                by=by,
            )
        for key, text in _uris(value):
            self.judge(
                "R-CONT-06",
                bool(_SCHEME.match(text)),
                seen,
                expected=f"an absolute URI as `{key}`",
                got=format_value(text),
                by=by,
            )
        annotations = value.get("annotations")
        priority = annotations.get("priority") if is_object(annotations) else None
        if isinstance(priority, int | float) and not isinstance(priority, bool):
            self.judge(
                "R-CONT-06",
                0 <= priority <= 1,
                seen,
                expected="a priority from 0 to 1",
                got=format_value(priority),
                by=by,
            )
        if value.get("type") == "file" and "planId" in value and isinstance(value.get("uri"), str):
            self.judge(
                "R-PLAN-11",
                bool(_SCHEME.match(value["uri"])),
                seen,
                expected="an absolute URI",
                got=format_value(value["uri"]),
            )


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a message, except in members with any content."""
    if is_object(value):
        yield value
        for key, inner in value.items():
            if key not in _FREE:
                yield from _objects(inner)
    elif is_array(value):
        for inner in value:
            yield from _objects(inner)


def _encoded(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    is_media = value.get("type") in ("image", "audio") and "mimeType" in value
    if is_media and isinstance(value.get("data"), str):
        yield "data", value["data"]
    if isinstance(value.get("blob"), str) and "uri" in value:
        yield "blob", value["blob"]
    if value.get("sessionUpdate") == "terminal_output_chunk" and isinstance(value.get("data"), str):
        yield "data", value["data"]
    output = value.get("output")
    if (
        value.get("sessionUpdate") == "terminal_update"
        and is_object(output)
        and isinstance(output.get("data"), str)
    ):
        yield "output.data", output["data"]


def _uris(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    uri = value.get("uri")
    if not isinstance(uri, str):
        return
    resource = "blob" in value or "text" in value
    if value.get("type") in ("resource_link", "image") or resource:
        yield "uri", uri


def _is_base64(text: str) -> bool:
    try:
        binascii.a2b_base64(text.encode(), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return True
