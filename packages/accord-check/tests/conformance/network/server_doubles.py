"""Servers that break one rule of HTTP or WebSocket each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from remote.quirk_server import ServerQuirks

__all__ = ("CONFORMING", "DOUBLES", "TOKEN", "Double")

TOKEN = "a token for the doubles of servers"
# The long times of the rules are short here, see `quick` in the tests.
CONFORMING = ServerQuirks(
    keepalive_s=0.2, ws_ping_s=0.2, ws_first_message_s=0.3, ws_limit=32 * 1024, h2_streams=1024
)


@dataclass(frozen=True)
class Double:
    """A server that breaks `rule`, and the rules in `also` as a consequence."""

    rule: str
    quirks: ServerQuirks
    also: frozenset[str] = frozenset()
    name: str = ""

    def __repr__(self) -> str:
        return f"{self.rule}-{self.name}"


def fault(rule: str, name: str, also: str = "") -> Double:
    quirks = replace(CONFORMING, faults=frozenset({name}))
    return Double(rule, quirks, frozenset(also.split()), name)


def quirk(rule: str, also: str = "", **changed: Any) -> Double:
    quirks = replace(CONFORMING, **changed)
    return Double(rule, quirks, frozenset(also.split()), ",".join(changed))


DOUBLES = (
    fault("R-HTTP-02", "no DELETE"),
    quirk("R-HTTP-03", h2_streams=None),
    fault("R-HTTP-05", "201 for initialize", also="R-HTTP-45"),
    fault("R-HTTP-05", "no connection id"),
    fault("R-HTTP-06", "empty 200 for a POST"),
    fault("R-HTTP-07", "any content type"),
    fault("R-HTTP-08", "any Accept"),
    fault("R-HTTP-09", "400 for an unknown connection"),
    fault("R-HTTP-11", "no session streams"),
    fault("R-HTTP-12", "updates on the connection stream"),
    fault("R-HTTP-12", "answers on the connection stream"),
    fault("R-HTTP-13", "204 for DELETE"),
    quirk("R-HTTP-13", delete_unknown=202),
    quirk("R-HTTP-17", keepalive_s=100.0),
    fault("R-HTTP-19", "ids are a login"),
    fault("R-HTTP-20", "cancels need a session"),
    fault("R-HTTP-21", "contradictions"),
    fault("R-HTTP-22", "many readers"),
    fault("R-HTTP-22", "404 for a method", also="R-HTTP-46"),
    quirk("R-HTTP-22", body_bytes=None),
    fault("R-HTTP-23", "initialize again"),
    fault("R-HTTP-24", "null ids"),
    fault("R-HTTP-26", "202 for anything"),
    fault("R-HTTP-26", "exact content type"),
    quirk("R-BATCH-11", array="501"),
    fault("R-HTTP-28", "named events"),
    quirk("R-HTTP-34", header_for="sessions"),
    quirk("R-HTTP-35", answers_need_header=True),
    fault("R-HTTP-35", "any session for answers"),
    quirk("R-HTTP-39", h2_streams=100),
    quirk("R-HTTP-40", opening_comment=b"", keepalive_s=100.0),
    quirk("R-HTTP-40", repeats_headers=False),
    quirk("R-HTTP-44", event_ids=True, faults=frozenset({"nothing is replayed"})),
    fault("R-HTTP-45", "426 for any upgrade"),
    fault("R-HTTP-46", "200 for OPTIONS"),
    fault("R-HTTP-50", "tracebacks in errors"),
    quirk("R-WS-01", ws_id=False),
    quirk("R-WS-02", ws_not_initialized="pass", ws_first_message_s=None),
    fault("R-WS-03", "binary messages"),
    fault("R-WS-05", "any origin"),
    fault("R-WS-06", "initialize again"),
    fault("R-WS-07", "1011 for everything"),
    fault("R-WS-11", "compression"),
    fault("R-WS-13", "any size"),
    quirk("R-WS-13", ws_limit=1024),
    quirk("R-WS-14", ws_ping_s=None),
    quirk("R-WS-15", ws_first_message_s=None),
    fault("R-WS-16", "tracebacks in errors"),
    fault("R-WS-18", "token sent back"),
)
