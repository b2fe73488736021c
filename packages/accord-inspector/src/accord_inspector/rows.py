"""What the page lists of each message."""

from __future__ import annotations

from typing import Any

from accord_trace.message_index import MessageRow


def row_json(row: MessageRow) -> dict[str, Any]:
    """Return a row for the page: `n` counts from 0, `pair` is the response or the request.

    `ts` is in seconds since the start of the recording, `seconds` the latency of a response.
    """
    found: dict[str, Any] = {
        "n": row.number,
        "ts": row.ts,
        "kind": row.kind,
        "dir": row.direction,
        "from": row.sender,
        "to": row.receiver,
        "method": row.method,
        "bytes": row.bytes,
        "conn": row.conn,
    }
    if row.id:
        found["id"] = row.id
    if row.session is not None:
        found["session"] = row.session
    if row.is_error:
        found["error"] = True
    if row.pair is not None:
        found["pair"] = row.pair
    if row.latency_s is not None:
        found["seconds"] = row.latency_s
    return found
