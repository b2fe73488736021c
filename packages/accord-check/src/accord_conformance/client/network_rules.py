"""Judges how a client uses HTTP and WebSocket, from its requests."""

from __future__ import annotations

import json
import time
from typing import Any, TypeAlias

from accord.text.lenient_json import is_object
from accord.text.redact import is_secret_header
from accord_conformance.judges.base import make_finding
from accord_conformance.network.http_server import Exchange
from accord_conformance.reports.report import Report
from accord_conformance.traffic.frame import Frame, Medium

Json: TypeAlias = dict[str, Any]

NETWORK_RULES = (
    "R-HTTP-04",
    "R-HTTP-07",
    "R-HTTP-08",
    "R-HTTP-09",
    "R-HTTP-10",
    "R-HTTP-15",
    "R-HTTP-16",
    "R-HTTP-18",
    "R-HTTP-20",
    "R-HTTP-25",
    "R-HTTP-32",
    "R-HTTP-33",
    "R-HTTP-36",
    "R-WS-02",
    "R-WS-03",
    "R-WS-10",
    "R-WS-12",
    "R-WS-14",
)
SESSION_METHODS = frozenset(
    f"session/{name}"
    for name in (
        "cancel",
        "close",
        "delete",
        "fork",
        "load",
        "prompt",
        "resume",
        "set_config_option",
        "set_mode",
    )
)
REOPENING = ("session/load", "session/resume")
_SHOWN = 2000


class NetworkRules:
    """Judges the requests of one connection; all findings go into `report`."""

    def __init__(self, medium: Medium) -> None:
        self.report = Report(medium=medium)
        self.where = ""
        self.opened: set[str | None] = set()  # the sessions whose streams were opened once
        self.children: dict[str, Frame] = {}  # announced child sessions without a stream
        self.ended_by_client = False
        self.cookie: str | None = None
        self._began = time.monotonic()
        self._number = 0

    def judge(
        self, rule: str, passed: bool, *seen: Frame, expected: str = "", got: str = ""
    ) -> None:
        """Add a finding."""
        finding = make_finding(
            rule, passed, "client", *seen, expected=expected, got=got, where=self.where
        )
        self.report.add(finding)

    def frame(self, text: bytes, *, by_client: bool = True) -> Frame:
        """Return evidence."""
        self._number += 1
        now = time.monotonic() - self._began
        return Frame(self._number, now, "client" if by_client else "agent", text[:_SHOWN])

    def evidence(self, exchange: Exchange) -> Frame:
        """Return a request as evidence, without secrets."""
        fields = [
            f"{name}: {value}"
            for name, value in exchange.headers.fields
            if not is_secret_header(name)
        ]
        first = f"{exchange.method} {exchange.path}"
        return self.frame("\n".join((first, *fields)).encode() + b"\n\n" + exchange.body)

    # HTTP.

    def on_request(self, exchange: Exchange, *, is_initialize: bool) -> None:
        """Judge the headers of any request."""
        seen = self.evidence(exchange)
        if exchange.method == "POST":
            kind = (exchange.header("Content-Type") or "").partition(";")[0].strip().lower()
            self.judge(
                "R-HTTP-07",
                kind == "application/json",
                seen,
                expected="Content-Type application/json",
                got=kind or "no Content-Type",
            )
        if exchange.method == "GET":
            accepted = exchange.header("Accept") or ""
            self.judge(
                "R-HTTP-08",
                "text/event-stream" in accepted,
                seen,
                expected="Accept with text/event-stream",
                got=accepted or "no Accept",
            )
        if is_initialize:
            return
        has_id = exchange.header("Acp-Connection-Id") is not None
        self.judge("R-HTTP-09", has_id, seen, expected="Acp-Connection-Id", got="no such header")
        has_version = exchange.header("Acp-Protocol-Version") is not None
        self.judge(
            "R-HTTP-18", has_version, seen, expected="Acp-Protocol-Version", got="no such header"
        )
        if self.cookie is not None:
            found = exchange.header("Cookie") or ""
            self.judge(
                "R-HTTP-04",
                self.cookie in found,
                seen,
                expected="the cookie that the server has set",
                got="another cookie" if found else "no cookie",
            )

    def on_message(
        self, exchange: Exchange, message: Json, stream: str | None, *, is_answer: bool
    ) -> None:
        """Judge the session header of a message; an answer belongs to `stream`."""
        seen = self.evidence(exchange)
        header = exchange.header("Acp-Session-Id")
        if is_answer:
            if stream is not None:
                for rule in ("R-HTTP-25", "R-HTTP-36"):
                    self.judge(
                        rule,
                        header == stream,
                        seen,
                        expected="Acp-Session-Id of the stream of the request",
                        got="no such header" if header is None else "another session",
                    )
            return
        method = message.get("method")
        params = message.get("params")
        session = params.get("sessionId") if is_object(params) else None
        if method == "$/cancel_request":
            self.judge(
                "R-HTTP-20", header is None, seen, expected="no Acp-Session-Id", got="the header"
            )
            return
        if method not in SESSION_METHODS and not isinstance(session, str):
            return
        for rule in ("R-HTTP-10", "R-HTTP-36"):
            self.judge(
                rule,
                header is not None and header == (session or header),
                seen,
                expected="Acp-Session-Id of the session",
                got="no such header" if header is None else "another session",
            )
        if isinstance(session, str):
            self.judge(
                "R-HTTP-16" if method in REOPENING else "R-HTTP-15",
                session in self.opened,
                seen,
                expected="a stream of the session before the first POST for it",
                got=f"{method} without a stream",
            )

    def on_sent(self, message: Json, text: bytes) -> None:
        """Note a child session that the kit announces."""
        params = message.get("params")
        update = params.get("update") if is_object(params) else None
        if is_object(update) and update.get("sessionUpdate") == "subagent_update":
            child = update.get("sessionId")
            if isinstance(child, str) and child not in self.opened:
                self.children.setdefault(child, self.frame(text, by_client=False))

    def on_stream(self, session: str | None) -> None:
        """Note a stream that the client has opened."""
        self.opened.add(session)
        if session is not None and self.children.pop(session, None) is not None:
            self.judge("R-HTTP-33", True)

    def on_http_end(self) -> None:
        """Judge what only the end of a connection shows."""
        for announced in self.children.values():
            self.judge(
                "R-HTTP-33",
                False,
                announced,
                expected="a stream for the announced child session",
                got="none",
            )
        self.judge(
            "R-HTTP-32",
            self.ended_by_client,
            self.frame(b"the end of the connection"),
            expected="DELETE at the end of the connection",
            got="none",
        )

    # WebSocket.

    def on_handshake(self, exchange: Exchange) -> None:
        """Judge what a handshake offers."""
        names = ("Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions")
        offered = [name for name in names if exchange.header(name) is not None]
        self.judge(
            "R-WS-12",
            not offered,
            self.evidence(exchange),
            expected="no subprotocol and no extension",
            got=", ".join(offered),
        )

    def on_first_text(self, text: bytes) -> None:
        """Judge the first message of a socket."""
        try:
            message = json.loads(text)
        except ValueError:
            message = None
        is_first = is_object(message) and message.get("method") == "initialize"
        seen = self.frame(text)
        self.judge("R-WS-10", True)
        self.judge(
            "R-WS-02", is_first, seen, expected="initialize as the first message", got="another one"
        )

    def on_socket_end(self, *, texts: int, binaries: int, pings: int, seconds: float) -> None:
        """Judge what only the end of a socket shows."""
        seen = self.frame(b"the end of the connection")
        if not texts:
            self.judge(
                "R-WS-10",
                False,
                seen,
                expected="a client that continues without Acp-Connection-Id in the response",
                got="it disconnected",
            )
            return
        self.judge(
            "R-WS-03", not binaries, seen, expected="messages as text", got="a binary message"
        )
        if seconds > PING_S:
            self.judge("R-WS-14", pings > 0, seen, expected="a ping every 20 s", got="none")


PING_S = 21.0
