"""What the page shows: recordings, or an agent that is running."""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from msgspec.structs import replace

from accord.version import __version__
from accord_inspector.json_http import ApiError
from accord_inspector.judged_recordings import JudgedRecordings
from accord_inspector.live import Hub
from accord_inspector.message_watcher import MessageWatcher
from accord_inspector.messages import Messages
from accord_inspector.queries import Params, filter_of, rule_of
from accord_inspector.talk.conversations import Conversations
from accord_trace.reading import TraceError
from accord_trace.selection import Filter


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
