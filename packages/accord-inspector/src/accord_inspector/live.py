"""Pushes what changes to the open pages, each over a WebSocket of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from accord.errors import TransportError
from accord.remote.access import GOING_AWAY, NetworkTransport
from accord.text import lenient_json
from accord.transports.base import Frame

INTERVAL_S = 0.1  # between two messages to a page
_WORK_S = 0.05  # of work, before the page is told how far it is
_EVENTS = 500  # that wait for one message; more are counted only

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Watcher(Protocol):
    """What one page sees of the messages: made for each page, and told what it shows."""

    def watch(self, request: dict[str, Any]) -> None:
        """Show the messages that a request of the page describes."""
        ...

    async def work(self, limit_s: float) -> bool:
        """Do what takes long, but not longer than this; return whether there is more to do."""
        ...

    def is_moving(self) -> bool:
        """Return whether later ticks differ even if no message comes."""
        ...

    def tick(self) -> dict[str, Any] | None:
        """Return what has changed since the last call; None if nothing has."""
        ...

    def close(self) -> None:
        """Show nothing any more: the page has gone."""
        ...


class Hub:
    """Passes states and events to all pages, at most ten times a second each.

    While the watcher of a page works, that page gets up to twenty: it learns of the end at once.

    A state has a name and a current value: pages get it when they connect, and after `changed`.
    An event is passed once, in order. If a page cannot keep up, events are dropped and counted.
    """

    def __init__(self, watcher: Callable[[], Watcher]) -> None:
        self._watcher = watcher
        self._states: dict[str, Callable[[], Any]] = {}
        self._tabs: set[_Tab] = set()
        self._is_closing = False

    def provide(self, name: str, value: Callable[[], Any]) -> None:
        """Define a state: `value` returns what can be encoded as JSON."""
        self._states[name] = value
        self.changed(name)

    def changed(self, name: str) -> None:
        """Pass the current value of a state to all pages, soon."""
        for tab in self._tabs:
            tab.changed(name)

    def push(self, name: str, value: Any) -> None:
        """Pass an event to all pages."""
        for tab in self._tabs:
            tab.push(name, value)

    def messages_changed(self) -> None:
        """Note that there are more messages."""
        for tab in self._tabs:
            tab.wake.set()

    async def serve(self, transport: NetworkTransport) -> None:
        """Serve one page until it disconnects."""
        watcher = self._watcher()
        tab = _Tab(transport, self._states, watcher)
        self._tabs.add(tab)
        try:
            if not self._is_closing:
                await transport.start(tab)
                await tab.run()
        except TransportError:
            pass  # the page has gone
        finally:
            self._tabs.discard(tab)
            watcher.close()
            transport.close_code = GOING_AWAY
            await transport.aclose()
            tab.closed.set()

    async def aclose(self) -> None:
        """Disconnect all pages."""
        self._is_closing = True
        tabs = list(self._tabs)
        for tab in tabs:
            tab.end()
        for tab in tabs:
            await tab.closed.wait()


class _Tab:
    """One page; the receiver of its transport."""

    def __init__(
        self,
        transport: NetworkTransport,
        states: dict[str, Callable[[], Any]],
        watcher: Watcher,
    ) -> None:
        self.wake = asyncio.Event()
        self.closed = asyncio.Event()
        self._transport = transport
        self._states = states
        self._watcher = watcher
        self._dirty = dict.fromkeys(states)
        self._events: deque[tuple[str, Any]] = deque()
        self._dropped = 0
        self._ended = asyncio.Event()
        self._room = asyncio.Event()

    def changed(self, name: str) -> None:
        self._dirty[name] = None
        self.wake.set()

    def push(self, name: str, value: Any) -> None:
        if len(self._events) >= _EVENTS:
            self._events.popleft()
            self._dropped += 1
        self._events.append((name, value))
        self.wake.set()

    def end(self) -> None:
        self._ended.set()
        self.wake.set()
        self._room.set()

    async def run(self) -> None:
        """Send what has changed, until the page disconnects."""
        self.wake.set()
        while True:
            await self.wake.wait()
            if self._ended.is_set():
                return
            self.wake.clear()
            is_working = await self._watcher.work(_WORK_S)
            message = self._message()
            if message:
                self._room.clear()
                self._transport.write([_encode(message)])
                if self._transport.congested:
                    await self._room.wait()
            if is_working:
                self.wake.set()
                await self._watcher.work(INTERVAL_S)
                continue
            if self._watcher.is_moving():
                self.wake.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_S):
                    await self._ended.wait()

    def _message(self) -> dict[str, Any]:
        message: dict[str, Any] = {}
        dirty, self._dirty = self._dirty, {}
        if dirty:
            known = [name for name in dirty if name in self._states]
            message["state"] = {name: self._states[name]() for name in known}
        if self._events:
            message["events"] = [*self._events]
            self._events.clear()
        if self._dropped:
            message["dropped"], self._dropped = self._dropped, 0
        messages = self._watcher.tick()
        if messages is not None:
            message["messages"] = messages
        return message

    # The receiver of the transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            try:
                request = lenient_json.loads(frame)
            except lenient_json.NotJson:
                continue
            if lenient_json.is_object(request) and "watch" in request:
                self._watcher.watch(request)
                self.wake.set()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        pass  # the page sends short messages

    def eof_received(self, error: Exception | None) -> None:
        self.end()

    def writable(self) -> None:
        self._room.set()
