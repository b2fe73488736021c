"""What the page lists of each message."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ("Row",)


class Row(Struct, kw_only=True, omit_defaults=True, eq=False):
    """One message of the list: `pair` is the number of the request or the response to it.

    `ts` is in seconds since the start of the recording, `seconds` the latency of a response.
    """

    n: int
    ts: float
    sender: str = field(name="from")
    receiver: str = field(name="to")
    dir: str
    kind: str  # request, response, notification, invalid, end
    method: str = ""
    session: str | None = None
    id: str = ""
    bytes: int = 0
    pair: int | None = None
    is_error: bool = field(name="error", default=False)
    conn: str = ""
    seconds: float | None = None
