"""What the page shows: recordings, or an agent that is running.

`Inspection` is the base of all kinds. `Hub` pushes what changes to the open pages, each over a
WebSocket of its own; `MessageWatcher` is what one page sees of the messages: those that its filter
selects, as they come.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from accord.errors import TransportError
from accord.remote.access import GOING_AWAY, NetworkTransport
from accord.text import lenient_json
from accord.text.lenient_json import is_object
from accord.transports.base import Frame
from accord.version import __version__
from accord_inspector.json_http import MappedParams, Params, filter_of, rule_of
from accord_inspector.judged import Judged
from accord_inspector.messages import Messages, View, row_json
from accord_inspector.talk import Conversations
from accord_terminal.conversation import ApiError
from accord_trace.reading import TraceError
from accord_trace.selection import Filter

_ROWS = 50  # the newest of those that came, in one message to the page
_RATE_S = 1.0


class MessageWatcher:
    """Counts the messages for one page, and passes the newest rows of its list.

    It also counts the messages that break rules, with any filter.

    The page says by `{"watch": {…filter…}, "recording": "…", "rows": true, "number": 1}` what it
    shows; what it gets has the number of its newest request.
    """

    def __init__(
        self,
        messages: Callable[[str], Messages],
        wanted: Callable[[Params, str], Filter],
        judged: Callable[[str], Judged],
    ) -> None:
        self._messages_of = messages
        self._wanted_of = wanted
        self._judged_of = judged
        self._judged: Judged | None = None
        self._wanted: Callable[[], Filter] | None = None  # if it changes with what is found
        self._messages: Messages | None = None
        self._view: View | None = None
        self._with_rows = False
        self._last: tuple[int, int, bool, int] | None = None
        self._sent = 0
        self._counted = (0.0, 0)  # a time, and the messages at it
        self._rate = 0.0
        self._problem = ""
        self._number: object = None

    def watch(self, request: dict[str, Any]) -> None:
        """Show the messages that a request of the page describes."""
        given = request.get("watch")
        recording = request.get("recording")
        self._number = request.get("number")
        self._last = None
        self._wanted = None
        params = MappedParams(given if is_object(given) else {})
        name = recording if isinstance(recording, str) else ""
        try:
            self._messages = self._messages_of(name)
            self._judged = self._judged_of(name)
            wanted = self._wanted_of(params, name)
        except ApiError as error:
            self._messages = None
            self._show(None)
            self._problem = error.text
            return
        self._problem = ""
        if rule_of(params):
            self._wanted = lambda: self._wanted_of(params, name)
        view = self._messages.view(wanted)
        self._show(view)
        self._with_rows = request.get("rows") is True
        self._sent = len(view)
        self._counted = (perf_counter(), len(self._messages))

    async def work(self, limit_s: float) -> bool:
        """Apply the filter to more messages; return whether there is more to do."""
        if self._messages is not None and self._wanted is not None:
            self._show(self._messages.view(self._wanted()))
        if self._view is None:
            return False
        return not await self._view.complete(limit_s)

    def is_moving(self) -> bool:
        """Return whether the rate will change without new messages."""
        return self._view is not None and self._rate > 0

    def close(self) -> None:
        """Show nothing any more: what only this page has searched for is not searched on."""
        self._messages = self._wanted = None
        self._show(None)

    def _show(self, view: View | None) -> None:
        if view is self._view:
            return
        if view is not None:
            view.watched()
        if self._view is not None:
            self._view.left()
        self._view = view

    def tick(self) -> dict[str, Any] | None:
        """Return the counts, the rate, and the newest rows; None if nothing has changed."""
        messages, view = self._messages, self._view
        if messages is None or view is None:
            problem, self._problem = self._problem, ""
            return {"watch": self._number, "problem": problem} if problem else None
        is_complete = messages.is_read and view.is_complete
        revision = 0 if self._judged is None else self._judged.revision
        state = (len(messages), len(view), is_complete, revision)
        if state == self._last and (not self._rate or not self._is_second_over()):
            return None
        self._last = state
        total, matched, *_ = state
        message: dict[str, Any] = {
            "watch": self._number,
            "total": total,
            "matched": matched,
            "complete": is_complete,
            "rate": self._rate_at(total),
            "broken": 0 if self._judged is None else len(self._judged.numbers("any")),
        }
        # More come in a tenth of a second than a page can show.
        message["sampled"] = matched - self._sent > _ROWS
        if self._with_rows and matched > self._sent:
            first = max(self._sent, matched - _ROWS)
            message["from"] = first
            message["rows"] = list(map(row_json, view.rows(first, _ROWS)))
            message["skipped"] = first - self._sent
        self._sent = matched
        return message

    def _rate_at(self, total: int) -> float:
        """Return the messages per second, of about the last second."""
        if self._is_second_over():
            since, count = self._counted
            now = perf_counter()
            self._rate = round((total - count) / (now - since), 1)
            self._counted = (now, total)
        return self._rate

    def _is_second_over(self) -> bool:
        """Return whether the rate is to be counted again."""
        return perf_counter() - self._counted[0] >= _RATE_S


INTERVAL_S = 0.1  # between two messages to a page
_WORK_S = 0.05  # of work, before the page is told how far it is
_EVENTS = 500  # that wait for one message; more are counted only

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Hub:
    """Passes states and events to all pages, at most ten times a second each.

    While the watcher of a page works, that page gets up to twenty: it learns of the end at once.

    A state has a name and a current value: pages get it when they connect, and after `changed`.
    An event is passed once, in order. If a page cannot keep up, events are dropped and counted.
    """

    def __init__(self, watcher: Callable[[], MessageWatcher]) -> None:
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
        watcher: MessageWatcher,
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


class JudgedRecordings:
    """The judged recordings by name: judging begins when one is asked for."""

    def __init__(
        self,
        messages: Callable[[str], Messages],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        changed: Callable[[], None],
    ) -> None:
        self._messages_of = messages
        self._spawn = spawn
        self._changed = changed
        self._judged: dict[Messages, Judged] = {}

    def of(self, recording: str) -> Judged:
        """Return what is known of a recording; raise `ApiError` if it is unknown."""
        messages = self._messages_of(recording)
        judged = self._judged.get(messages)
        if judged is None:
            judged = self._judged[messages] = Judged()
            self._spawn(self._judge(messages, judged))
        return judged

    def known(self, recording: str) -> Judged | None:
        """Return what is known of a recording if it is judged; raise `ApiError` as `of`."""
        return self._judged.get(self._messages_of(recording))

    async def _judge(self, messages: Messages, judged: Judged) -> None:
        grown = asyncio.Event()
        messages.observe(lambda _count: grown.set())
        judged.observe(self._changed)
        while not (messages.is_read or messages.grows):  # reading comes first
            grown.clear()
            await grown.wait()
        await judged.run(
            messages.path,
            lambda: len(messages),
            lambda: messages.is_read and not messages.grows,
            grown,
        )


class Inspection(ABC):
    """What is inspected; `hub` passes what changes to the pages.

    An asynchronous context manager: what is inspected runs inside the block.
    """

    kind: str = ""  # recording, folder, agent or tap
    exit_status: int = 0  # of the program

    def __init__(self) -> None:
        self.hub: Hub = Hub(lambda: MessageWatcher(self.messages, self.wanted, self.judges.of))
        self.finished: asyncio.Event = asyncio.Event()  # ends the program
        self._run_id: str = secrets.token_hex(8)  # another one when the program is started again
        self._opened: dict[Path, Messages] = {}
        self._reported: set[Path] = set()  # of which not all can be shown
        self._tasks = asyncio.TaskGroup()
        self._running: list[asyncio.Task[None]] = []
        self.problems: list[str] = []  # shown on the page
        self.judges: JudgedRecordings = JudgedRecordings(
            self.messages, self.spawn, self.hub.messages_changed
        )
        self.hub.provide("inspection", self.describe)
        self.hub.provide("problems", lambda: self.problems)
        self.conversations: Conversations = Conversations(self)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        try:
            await self.start()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self.stop()
        finally:
            for task in self._running:
                task.cancel()
            await self._tasks.__aexit__(*error)
            for messages in self._opened.values():
                messages.close()

    async def start(self) -> None:  # noqa: B027  # recordings need none
        """Start what is inspected."""

    async def stop(self) -> None:  # noqa: B027
        """Stop what is inspected."""

    def pass_signal(self, number: int) -> bool:
        """Handle a signal that ends programs; return False to end this one."""
        return False

    @abstractmethod
    def path_of(self, recording: str) -> Path:
        """Return the file of a recording; the empty name is that of the only one.

        Raise `ApiError` for an unknown name.
        """

    @property
    def title(self) -> str:
        """What is inspected, for a person."""
        return ""

    @property
    def is_live(self) -> bool:
        """Whether messages can be sent."""
        return False

    @property
    def fault_marks(self) -> Mapping[int, str]:
        """What faults did to messages, by their numbers."""
        return {}

    def now(self, since: float) -> float | None:
        """Return the time in the recording, in seconds.

        None if the connection has ended to which a message of the time `since` belongs: nothing is
        sent over it any more.
        """
        return None

    def describe(self) -> dict[str, Any]:
        """Return what the page shows of the inspection."""
        return {
            "kind": self.kind,
            "title": self.title,
            "live": self.is_live,
            "version": __version__,
            "start": self._run_id,
        }

    def messages(self, recording: str = "") -> Messages:
        """Return the messages of a recording, which is read from now on.

        Raise `ApiError` if it is unknown or cannot be read.
        """
        path = self.path_of(recording)
        found = self._opened.get(path)
        if found is None:
            try:
                found = Messages(path, grows=self.is_live)
            except TraceError as error:
                raise ApiError(422, str(error)) from None
            self._opened[path] = found
            found.observe(lambda _count: self.hub.messages_changed())
            self.spawn(self._follow(found))
        return found

    def wanted(self, params: Params, recording: str = "") -> Filter:
        """Return the filter of an address; raise `ApiError` if it is invalid."""
        wanted, rule = filter_of(params), rule_of(params)
        if not rule:
            return wanted
        return replace(wanted, rows=self.judges.of(recording).numbers(rule))

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Run a coroutine until the inspection ends."""
        task = self._tasks.create_task(work)
        self._running.append(task)
        task.add_done_callback(self._running.remove)
        return task

    async def _follow(self, messages: Messages) -> None:
        if not messages.grows:
            messages.observe(lambda _count: self._report_skipped(messages))
        try:
            await messages.follow()
        except TraceError as error:
            self._report(str(error))

    def _report_skipped(self, messages: Messages) -> None:
        """Say once, at the end of a recording, which of its lines cannot be shown."""
        found = messages.index.problems if messages.is_read else []
        if found and messages.path not in self._reported:
            self._reported.add(messages.path)
            more = f"; {len(found) - 1} more" if len(found) > 1 else ""
            self._report(f"Not all of {messages.path.name} is shown: {found[0]}{more}")

    def _report(self, problem: str) -> None:
        self.problems.append(problem)
        self.hub.changed("problems")
