"""A recording in the HAR format of browsers' developer tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from msgspec import UNSET

from accord.text import lenient_json
from accord.version import __version__
from accord_trace.pairing import Pairing
from accord_trace.records import Header, Record

_NO_SIZES: dict[str, Any] = {"headersSize": -1, "headers": [], "cookies": []}


class _Recording(Protocol):
    header: Header

    def __iter__(self) -> Iterator[Record]: ...


def http_archive(trace: _Recording) -> Iterator[bytes]:
    """Yield the parts of the file: an entry for each request and each notification.

    The method is `POST`, the URL `acp://agent/session/prompt`; an error has the status 500, a
    request without a response and a notification 0.
    """
    creator = {"name": "accord", "version": __version__}
    head = lenient_json.dumps({"version": "1.2", "creator": creator})
    yield b'{"log":' + head[:-1] + b',"entries":['
    separator = b"\n"
    for entry in _entries(trace):
        yield separator + lenient_json.dumps(entry)
        separator = b",\n"
    yield b"\n]}}\n"


def _entries(trace: _Recording) -> Iterator[dict[str, Any]]:
    pairing = Pairing()
    for record in trace:
        answered = pairing.add(record)
        if answered is not None:
            yield _entry(trace, answered.request, record)
        elif record.type == "notification":
            yield _entry(trace, record, None)
    yield from (_entry(trace, request, None) for request in pairing.unanswered)


def _entry(trace: _Recording, request: Record, response: Record | None) -> dict[str, Any]:
    took_ms = 0.0 if response is None else 1000 * (response.ts - request.ts)
    side = (request.receiver or "agent").lower()
    method = "" if request.method is UNSET else request.method
    status = 0 if response is None else 500 if response.is_error else 200
    return {
        "startedDateTime": _time(trace.header.t, request.ts),
        "time": took_ms,
        "request": {
            "method": "POST",
            "url": f"acp://{side}/{method}",
            "httpVersion": "JSON-RPC 2.0",
            **_NO_SIZES,
            "queryString": [],
            "bodySize": request.bytes,
            "postData": {"mimeType": "application/json", "text": _text([request])},
        },
        "response": {
            "status": status,
            "statusText": "",
            "httpVersion": "JSON-RPC 2.0",
            **_NO_SIZES,
            "redirectURL": "",
            "bodySize": 0 if response is None else response.bytes,
            "content": {
                "size": 0 if response is None else response.bytes,
                "mimeType": "application/json",
                "text": _text([] if response is None else [response]),
            },
        },
        "cache": {},
        "timings": {"send": 0, "wait": took_ms, "receive": 0},
        "connection": request.conn,
    }


def _text(records: Iterable[Record]) -> str:
    return "".join(record.frame.decode("utf-8", "replace") for record in records)


def _time(start: str, seconds: float) -> str:
    try:
        began = datetime.fromisoformat(start)
    except ValueError:
        began = datetime.fromtimestamp(0, UTC)
    return (began + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
