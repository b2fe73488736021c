"""The access log: one line for each connection, at its start and end, and for each request.

Lines have no messages, tokens, cookies, headers or queries (R-SEC-10). Requests that are refused
have at most `REFUSED_LINES` lines a minute for each address and status; the next line of these has
the number of those without a line as `suppressed`.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from accord.remote.access import Receive, Scope, Send, path_of
from accord.remote.monitor import MonitoredTransport, Observer, Turn
from accord.text.excerpt import excerpt, one_line, visible
from accord.text.secrets import redacted_text

log: logging.Logger = logging.getLogger("accord.access")

_PROBES = ("/health", "/ready")
REFUSED_LINES = 20
_INTERVAL_S = 60.0
_MAX_SOURCES = 1024  # addresses and statuses that are counted separately
_ID_CHARS = 8  # of a connection id: enough to find its lines, and not to use it


class AccessLog:
    """Logs the connections of a server at INFO, and its turns at DEBUG."""

    def connection_opened(self, connection: MonitoredTransport) -> None:
        _log("open", **_names(connection))

    def connection_closed(self, connection: MonitoredTransport) -> None:
        _log(
            "close",
            **_names(connection),
            by=connection.ended_by,
            code=connection.close_code,
            duration_s=connection.age_s,
            received_messages=connection.received.messages,
            received_bytes=connection.received.bytes,
            sent_messages=connection.sent.messages,
            sent_bytes=connection.sent.bytes,
            turns=connection.turns,
        )

    def turn_started(self, connection: MonitoredTransport, turn: Turn) -> None:
        pass

    def turn_ended(self, connection: MonitoredTransport, turn: Turn) -> None:
        pass

    def stalled(self, connection: MonitoredTransport, duration_s: float) -> None:
        pass


class RefusedRequests:
    """Counts the lines about the refused requests of a server, by address and status."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], list[float]] = {}  # since when, lines, suppressed

    def suppressed(self, client: str, status: int) -> int | None:
        """Return how many lines were suppressed before this one, None if it is suppressed too."""
        now = time.monotonic()
        key = (client, status)
        if key not in self._counts and len(self._counts) >= _MAX_SOURCES:
            self._forget(now)
            if len(self._counts) >= _MAX_SOURCES:
                key = ("", 0)  # all further ones are one source
        count = self._counts.setdefault(key, [now, 0, 0])
        before = 0
        if now - count[0] >= _INTERVAL_S:
            before = int(count[2])
            count[:] = [now, 0, 0]
        if count[1] >= REFUSED_LINES:
            count[2] += 1
            return None
        count[1] += 1
        return before

    def _forget(self, now: float) -> None:
        """Drop the sources that have been silent for long and have nothing to report."""
        old = [key for key, (since, _, lost) in self._counts.items()
               if not lost and now - since >= _INTERVAL_S]  # fmt: skip
        for key in old:
            del self._counts[key]


class RequestLog:
    """Logs one HTTP request.

    Use `receive` and `send` instead of those of the server, and call `done` at the end.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, refused: RefusedRequests
    ) -> None:
        self._refused = refused
        self._scope = scope
        self._receive = receive
        self._send = send
        self._started = time.monotonic()
        self._status = 0
        self._received = 0
        self._sent = 0

    @property
    def status(self) -> int:
        """The status of the response; 0 if none was begun."""
        return self._status

    async def receive(self) -> Any:
        event = await self._receive()
        self._received += len(event.get("body", b""))
        return event

    async def send(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            self._status = event["status"]
        self._sent += len(event.get("body", b""))
        await self._send(event)

    def done(self) -> None:
        """Log the request; those of load balancers only if something is wrong."""
        is_usual = path_of(self._scope) in _PROBES and self._status == 200
        _log_request(
            self._scope,
            self._status,
            self._refused,
            level=logging.DEBUG if is_usual else logging.INFO,
            duration_s=time.monotonic() - self._started,
            received_bytes=self._received,
            sent_bytes=self._sent,
        )


def log_refused_handshake(scope: Scope, status: int, refused: RefusedRequests) -> None:
    """Log a WebSocket connection that was not accepted."""
    _log_request(scope, status, refused)


class LogFormatter(logging.Formatter):
    """Formats records as JSON, or as text in which the fields of the access log are `name=value`.

    A line of JSON has `time`, `level`, `logger`, and either `event` with its fields or `message`.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__("%(asctime)s %(message)s")
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        if not self._as_json:
            return super().format(record)
        fields: dict[str, Any] = {
            "time": self._utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        access = getattr(record, "access", None)
        if access is not None:
            fields |= access
        else:
            fields["message"] = record.getMessage()
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)

    def formatTime(  # noqa: N802  # the name of the library
        self, record: logging.LogRecord, datefmt: str | None = None
    ) -> str:
        return self._utc(record.created)

    @staticmethod
    def _utc(created: float) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
        return f"{seconds}.{int(created * 1000) % 1000:03}Z"


def short_id(connection_id: str) -> str:
    """Return what the log calls a connection."""
    return connection_id[:_ID_CHARS]


def _names(connection: MonitoredTransport) -> dict[str, Any]:
    return {
        "connection": short_id(connection.id),
        "transport": connection.kind,
        "principal": connection.principal,
    }


def _log_request(
    scope: Scope,
    status: int,
    refused: RefusedRequests,
    *,
    level: int = logging.INFO,
    **fields: Any,
) -> None:
    client = scope.get("client")
    address = client[0] if client else "unix"
    before: int | None = 0
    if status >= 400 and log.isEnabledFor(level):
        before = refused.suppressed(address, status)
        if before is None:
            return
    _log(
        "request",
        level=level,
        status=status,
        **_request(scope, address),
        **fields,
        suppressed=before or None,
    )


def _request(scope: Scope, address: str) -> dict[str, Any]:
    return {
        "method": scope.get("method", "GET"),
        "path": excerpt(scope["path"], 100),
        "transport": scope["type"],
        "http": scope.get("http_version"),
        "client": address,
        "connection": _connection_of(scope),
    }


def _connection_of(scope: Scope) -> str | None:
    """Return the short id in the header of a request, None if it has none or a strange one."""
    for name, value in scope["headers"]:
        if name.lower() == b"acp-connection-id":
            text = value[:_ID_CHARS].decode("latin-1")
            return text if text.isalnum() and text.isascii() else None
    return None


def _log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    if not log.isEnabledFor(level):
        return
    known = {name: _clean(value) for name, value in fields.items() if value is not None}
    text = " ".join([event, *(f"{name}={_shown(value)}" for name, value in known.items())])
    log.log(level, "%s", text, extra={"access": {"event": event, **known}})


def _clean(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    return visible(one_line(redacted_text(value))) if isinstance(value, str) else value  # R-SEC-12


def _shown(value: Any) -> str:
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=') else json.dumps(text)


# What is called about the connections of a server: the access log, and OpenTelemetry.


def default_observers() -> list[Observer]:
    """Return the observers of a server; OpenTelemetry only if its API is installed."""
    try:
        from accord.remote.telemetry import Telemetry
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "opentelemetry":
            raise
        return [AccessLog()]
    return [AccessLog(), Telemetry()]
