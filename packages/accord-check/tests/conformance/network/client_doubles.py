"""Clients that break one rule of HTTP or WebSocket each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from remote.quirk_client import ClientQuirks

__all__ = ("CONFORMING", "DOUBLES", "Double")

CONFORMING = ClientQuirks()


@dataclass(frozen=True)
class Double:
    """A client that breaks `rule`, and the rules in `also`; `plays` is its prompt."""

    rule: str
    quirks: ClientQuirks
    plays: str
    also: frozenset[str]
    name: str
    loads: bool = False

    def __repr__(self) -> str:
        return f"{self.rule}-{self.name}"


def fault(rule: str, name: str, plays: str = "help", also: str = "") -> Double:
    quirks = replace(CONFORMING, faults=frozenset({name}))
    return Double(rule, quirks, plays, frozenset(also.split()), name)


def quirk(rule: str, plays: str = "help", also: str = "", **changed: Any) -> Double:
    quirks = replace(CONFORMING, **changed)
    name = ",".join(changed)
    return Double(rule, quirks, plays, frozenset(also.split()), name, rule == "R-HTTP-16")


DOUBLES = (
    quirk("R-HTTP-04", cookies=False),
    fault("R-HTTP-07", "text/plain"),
    fault("R-HTTP-08", "any Accept"),
    fault("R-HTTP-09", "no connection id"),
    fault("R-HTTP-10", "no session header", also="R-HTTP-36"),
    fault("R-HTTP-15", "late streams"),
    quirk("R-HTTP-16", opens_before_load=False),
    quirk("R-HTTP-18", version_header=False),
    fault("R-HTTP-20", "cancels with a session"),
    quirk("R-HTTP-25", "check: permissions/malformed", also="R-HTTP-36", answers_have_header=False),
    quirk("R-HTTP-36", "check: permissions/malformed", "R-HTTP-25", answers_have_header=False),
    fault("R-HTTP-28", "LF only", "check: network/events"),
    quirk("R-HTTP-32", deletes=False),
    fault("R-HTTP-33", "no child streams", "check: updates/subagents"),
    fault("R-HTTP-37", "leaves when refused", "check: network/refused-stream", "R-HTTP-32"),
    quirk("R-HTTP-41", "check: network/reopened-stream", reopens=False),
    fault("R-HTTP-42", "deaf after reopening", "check: network/reopened-stream"),
    fault("R-HTTP-43", "wrong last id", "check: network/reopened-stream"),
    fault("R-HTTP-48", "follows redirects", "check: network/redirect"),
    fault("R-HTTP-49", "small events", "check: network/large-events"),
    fault("R-WS-02", "another first message"),
    fault("R-WS-03", "sends binary"),
    fault("R-WS-03", "reads binary", "check: network/binary"),
    fault("R-WS-09", "ignores malformed messages", "check: network/malformed-messages"),
    quirk("R-WS-10", ws_needs_id=True),
    quirk("R-WS-12", ws_offers_deflate=True),
    quirk("R-WS-13", "check: network/large-messages", ws_limit=20 * 1024),
    quirk("R-WS-14", ws_pings=False),
)
