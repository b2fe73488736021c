"""What to select from a recording."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from accord_trace.records import Direction, Kind


class Filter(Struct, frozen=True, kw_only=True):
    """What to select; a message must meet every condition that is set.

    A response has the method and the session of its request. `methods` are patterns such as
    `session/*`; `sessions` are ids. `hops` are pairs of components, such as `("Client",
    "Proxy(0)")`, between which a message passed in either direction. `errors` selects error
    responses and frames that are not messages. `since` and `until` are seconds since the start.
    `min_latency_s` selects responses that took at least as long. `text` is searched in the method
    and in the params, the result or the error, in any case. `json_path` (RFC 9535) selects the
    messages in which it finds something; `$` is the message. `rows` has the numbers, from 0 on, of
    the messages that can be selected at all.
    """

    methods: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    direction: Direction | None = None
    kinds: tuple[Kind, ...] = ()
    hops: tuple[tuple[str, str], ...] = ()
    errors: bool = False
    since: float | None = None
    until: float | None = None
    min_latency_s: float | None = None
    text: str = ""
    json_path: str = ""
    rows: frozenset[int] | None = None


def name_fits(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a method fits one of the patterns, or there are none."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
