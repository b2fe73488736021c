"""A run against a client that connects by HTTP or WebSocket."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from accord.text.lenient_json import is_object
from accord_conformance.client.network import HttpEnd, NetworkEnd, NetworkRules, SocketEnd
from accord_conformance.client.run import ClientRun
from accord_conformance.network import Exchange, RawServer
from accord_conformance.reports.report import Report, RunResult
from accord_conformance.traffic.message import Frame

# Makes the run for a connection.
MakeRun: TypeAlias = Callable[[NetworkEnd], ClientRun]

PATH = "/acp"
LINGER_S = 3.0  # for another connection after the last one has ended
_POLL_S = 0.1


class ServedRun:
    """Serves clients until the last one has gone, or `stop` is set.

    A request needs `token`, if there is one.
    """

    def __init__(
        self,
        make_run: MakeRun,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        on_result: Callable[[RunResult], None] = lambda _: None,
    ) -> None:
        self.server = RawServer(self._handle, host=host, port=port)
        self._make_run = make_run
        self._token = token
        self._on_result = on_result
        self._ends: dict[str, HttpEnd] = {}
        self._runs: list[tuple[NetworkEnd, ClientRun, asyncio.Task[RunResult]]] = []
        self._idle_since: float | None = None

    async def run(self, stop: asyncio.Event, listening: Callable[[int], None]) -> RunResult:
        """Serve; `listening` is called with the port. Raise `OSError` if it cannot be used."""
        async with self.server:
            listening(self.server.port)
            while not stop.is_set() and not self._is_over():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await stop.wait()
            for end, _, _ in self._runs:
                end.ended()
            tasks = [task for _, _, task in self._runs]
            if tasks:
                await asyncio.wait(tasks)
        result = self.result()
        self._on_result(result)
        return result

    def result(self) -> RunResult:
        """Return the result of all connections so far."""
        found = RunResult("client")
        report: Report | None = None
        for _, run, _ in self._runs:
            one = run.result()
            found.subject = one.subject
            found.seconds = max(found.seconds, one.seconds)
            found.scenario_results += one.scenario_results
            found.run_errors += one.run_errors
            if report is None:
                report = one.reports[0]
                continue
            report.merge(one.reports[0])
        found.reports = [report or Report(subject="client", side="client")]
        found.run_errors += [repr(error) for error in self.server.errors]
        return found

    @property
    def frames(self) -> list[Frame]:
        """The messages of all connections."""
        return [frame for _, run, _ in self._runs for frame in run.connection.observer.state.frames]

    def _is_over(self) -> bool:
        """Return whether every client has gone, for a while."""
        now = time.monotonic()
        for end in self._ends.values():
            # A client that has gone without DELETE.
            if not end.closed.is_set() and not end.open_requests and now - end.last_seen > LINGER_S:
                end.ended()
        is_idle = bool(self._runs) and all(task.done() for _, _, task in self._runs)
        if not is_idle:
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since > LINGER_S

    # Requests.

    async def _handle(self, exchange: Exchange) -> None:
        if exchange.path == f"{PATH}/redirected":
            for end in self._ends.values():
                end.followed = exchange
            await exchange.respond(404)
        elif exchange.path != PATH:
            await exchange.respond(404)
        elif not self._is_logged_in(exchange):
            await exchange.respond(401, b"", {"WWW-Authenticate": "Bearer"})
        elif (exchange.header("Upgrade") or "").lower() == "websocket":
            end = SocketEnd(NetworkRules("websocket"))
            self._start(end)
            await end.serve(exchange)
        elif exchange.method == "POST" and _is_initialize(exchange.body):
            created = HttpEnd(NetworkRules("http"), secrets.token_hex(16))
            self._ends[created.id] = created
            self._start(created)
            await created.initialize(exchange)
        else:
            await self._handle_known(exchange)

    async def _handle_known(self, exchange: Exchange) -> None:
        ident = exchange.header("Acp-Connection-Id")
        known = self._ends.get(ident or "")
        if known is not None and not known.closed.is_set():
            await known.handle(exchange)
            return
        last = next((end for end in reversed(self._ends.values()) if not end.closed.is_set()), None)
        if ident is None and last is not None:
            last.rules.on_request(exchange, is_initialize=False)
        await exchange.respond(400 if ident is None else 404)

    def _is_logged_in(self, exchange: Exchange) -> bool:
        if self._token is None:
            return True
        given = exchange.header("Authorization") or ""
        return hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode())

    def _start(self, end: NetworkEnd) -> None:
        run = self._make_run(end)
        self._runs.append((end, run, asyncio.ensure_future(run.run())))


def _is_initialize(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except ValueError:
        return False
    return is_object(message) and message.get("method") == "initialize"
