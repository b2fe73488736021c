"""When a provider that refused a request can be asked again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRIED = frozenset({429, 503, 529})
"""Statuses of a refusal that ends by itself: too many requests, unavailable, overloaded."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Of providers: how much is left, and when it is full again.
_RESETS = (
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait; None if the headers (in lower case) do not tell.

    `now` is in seconds since 1970. `Retry-After` takes precedence over the headers of providers;
    of those, the latest reset of what is used up counts.
    """
    if (text := headers.get("retry-after-ms")) is not None:
        try:
            return max(float(text) / 1000, 0.0)
        except ValueError:
            pass
    if (seconds := _moment(headers.get("retry-after", ""), now)) is not None:
        return seconds
    used_up = [
        seconds
        for left, reset in _RESETS
        if headers.get(left, "").strip() in ("0", "0.0")
        and (seconds := _moment(headers.get(reset, ""), now)) is not None
    ]
    return max(used_up, default=None)


def _moment(text: str, now: float) -> float | None:
    """Return the seconds until a moment: seconds, `6m0s`, an HTTP date or RFC 3339."""
    text = text.strip()
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    parts = _DURATION.findall(text)
    if parts and "".join(map("".join, parts)) == text:
        return sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except ValueError:
            continue
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(moment.timestamp() - now, 0.0)
    return None
