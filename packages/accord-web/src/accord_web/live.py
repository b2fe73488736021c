"""A device as a client of a session: it answers, says something, and sets options.

The device is one client of the session's owner, under its own name. To view a session needs no
client; one that has an owner is joined, so that the agent's questions come here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from accord.errors import AccordError, AuthRequired, RequestError
from accord.text.excerpt import one_line
from accord.types.content import ContentBlock
from accord_terminal.conversation import ApiError, Questions, prompt_contents
from accord_terminal.sessions.named import SharedSession, joined_session
from accord_terminal.sessions.owners import transport_to
from accord_terminal.sessions.records import LoginRequired, Record, Store, has_owner
from accord_web.devices import Device
from accord_web.sessions import JournalLog

_logger = logging.getLogger("accord.web")
_START_S = 150.0  # for the agent of a session
_END_S = 5.0


class DeviceSession:
    """One device in one session. `changed` is called when a question or the connection changes."""

    def __init__(
        self, device: Device, journal: JournalLog, store: Store, changed: Callable[[], None]
    ) -> None:
        self.device: Device = device
        self.journal: JournalLog = journal
        self.questions: Questions = Questions(changed)
        self.shared: SharedSession | None = None
        self.problem: str = ""
        self._store = store
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._joined: asyncio.Future[SharedSession] | None = None
        self._turns: set[asyncio.Task[None]] = set()

    @property
    def record(self) -> Record:
        """The record of the session."""
        return self.journal.record

    @property
    def is_busy(self) -> bool:
        """Whether a prompt of this device is open, which leaving would cut off."""
        return bool(self._turns)

    def follow(self) -> None:
        """Join the session if it has an owner, and this device has not joined it."""
        if self._task is None and has_owner(self.record.id):
            self._join()

    async def joined(self) -> SharedSession:
        """Return the session when it is joined; its agent is started if it does not run.

        Raises `ApiError`.
        """
        if self._task is None or self._joined is None:
            self._join()
        assert self._joined is not None
        try:
            async with asyncio.timeout(_START_S):
                return await asyncio.shield(self._joined)
        except TimeoutError:
            raise ApiError(504, "The agent does not start: see `accord session show`") from None
        except (AccordError, OSError) as error:
            raise api_error(error) from None

    def _join(self) -> None:
        self._leave.clear()
        self._joined = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(self._joined), name="accord web session")

    async def _hold(self, joined: asyncio.Future[SharedSession]) -> None:
        try:
            opened = await transport_to(self.record, self._store)
            self.journal.record = self._store.read(self.record.id)
            asks = self.device.may("answer")
            async with joined_session(
                self.journal.record,
                opened,
                client_name=self.device.name,
                decides=asks,
                permissions=self.questions.ask_permission,
                on_elicit_form=self.questions.ask_form if asks else None,
                on_elicit_url=self.questions.ask_url if asks else None,
            ) as shared:
                connection = shared.agent.remote.connection
                self.questions.has_ended = lambda: connection.has_ended
                self.shared, self.problem = shared, ""
                joined.set_result(shared)
                self._changed()
                ended = asyncio.ensure_future(connection.wait_ended())
                left = asyncio.ensure_future(self._leave.wait())
                try:
                    await asyncio.wait([ended, left], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in (ended, left):
                        task.cancel()
                    await asyncio.wait([ended, left])
        except (AccordError, OSError) as error:
            self.problem = api_error(error).text
            if not joined.done():
                joined.set_exception(error)
                joined.exception()  # nothing may wait for it
        finally:
            joined.cancel()
            self.shared, self._task = None, None
            # The connection has ended, so none of them cancels its turn: the session goes on.
            if self._turns:
                await asyncio.wait(self._turns, timeout=_END_S)
                for task in self._turns:
                    task.cancel()
            self._changed()

    async def aclose(self) -> None:
        """Leave the session, which stays open for others."""
        self._leave.set()
        if self._task is not None:
            task = self._task
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await asyncio.wait([task])
            task.cancel()
            await asyncio.wait([task])

    # For the page.

    def json(self, listed: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a page shows of a session besides its conversation."""
        shared = self.shared
        agent = None
        if shared is not None:
            self.journal.take_options(shared.session)
            supports = [name for name in ("steer", "close_session") if _has(shared, name)]
            agent = {"supports": supports}
        log = self.journal.log
        is_running = log.is_running
        return {
            "session": self.record.id,
            "title": listed.get("title", one_line(self.record.label, 100)),
            "agent": one_line(self.record.agent_info or self.record.agent, 100),
            "listed": {"id": log.id, "changed": log.changed, "waits": None, "opened": True},
            "client": {"agent": agent, "running": is_running},
            "state": listed.get("state", "idle"),
            "questions": [each for each in self.questions.json() if not each["ended"]],
            "queue": [*self.journal.queued.values()][:20],
            "clients": listed.get("clients", []),
            "role": self.device.role,
            "problem": self.problem,
            "closed": self._store.record_path(self.record.id).exists() is False,
        }

    # What the person does.

    async def answer(self, body: Mapping[str, Any]) -> None:
        """Answer a question of the agent."""
        number = body.get("question")
        if not isinstance(number, int):
            raise ApiError(400, "question: expected a number")
        self.questions.answer(number, body.get("answer"))

    async def prompt(self, body: Mapping[str, Any]) -> None:
        """Send a prompt, which waits if a turn runs; return when the session has it."""
        shared = await self.joined()
        contents = await self._contents(shared, body)
        if len(contents) == 1 and isinstance(contents[0], str):
            await _asked(shared.submit(contents[0]))
            return
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._turn(shared, contents, started), name="accord web turn")
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)
        await _asked(started)

    async def _turn(
        self, shared: SharedSession, contents: list[ContentBlock], started: asyncio.Future[None]
    ) -> None:
        """Send a prompt with files and keep its request open; the journal shows its turn."""
        try:
            async with shared.session.prompt(*contents) as turn:
                started.set_result(None)
                async for _ in turn:
                    pass
        except AccordError as error:
            if not started.done():
                started.set_exception(error)
            else:
                _logger.debug("= the turn of a page has failed: %s", error)
        finally:
            started.cancel()

    async def _contents(self, shared: SharedSession, body: Mapping[str, Any]) -> list[ContentBlock]:
        return await prompt_contents(shared.agent, [self.record.cwd], dict(body))

    async def steer(self, body: Mapping[str, Any]) -> dict[str, str]:
        """Say something in the running turn; return its outcome, who holds it, and why."""
        shared = await self.joined()
        contents = await self._contents(shared, body)
        if len(contents) != 1 or not isinstance(contents[0], str):
            await self.prompt(body)
            return {"outcome": "queued", "by": "session", "reason": "it has files"}
        said = await _asked(shared.steer(contents[0]))
        return {"outcome": said.outcome, "by": said.by, "reason": said.reason}

    async def cancel(self, _body: Mapping[str, Any]) -> None:
        """Cancel the running turn, whoever has started it."""
        shared = await self.joined()
        status = await _asked(shared.status())
        for prompt in status.queue:
            if prompt.state == "running":
                await _asked(shared.withdraw(prompt.prompt_id))

    async def withdraw(self, body: Mapping[str, Any]) -> None:
        """Remove a prompt from the queue."""
        shared = await self.joined()
        await _asked(shared.withdraw(_text(body, "prompt")))

    async def option(self, body: Mapping[str, Any]) -> None:
        """Set a config option, such as the mode or the model."""
        value = body.get("value")
        if not isinstance(value, str | bool):
            raise ApiError(400, "value: expected a string or a boolean")
        shared = await self.joined()
        await _asked(shared.session.set_option(_text(body, "option"), value))

    async def cancel_tool_call(self, body: Mapping[str, Any]) -> None:
        """Cancel one tool call."""
        shared = await self.joined()
        await _asked(shared.session.cancel_tool_call(_text(body, "call")))

    async def close(self, _body: Mapping[str, Any]) -> None:
        """Close the session for all its clients; the agent ends."""
        shared = await self.joined()
        await _asked(shared.close())


async def _asked(work: Any) -> Any:
    try:
        return await work
    except (AccordError, OSError, ValueError) as error:
        raise api_error(error) from None


def _has(shared: SharedSession, method: str) -> bool:
    try:
        return shared.agent.supports(method)
    except ValueError:
        return False


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise ApiError(400, f"{key}: expected a string")
    return value


def api_error(error: Exception) -> ApiError:
    """Return an error of a session as one for the page."""
    match error:
        case ApiError():
            return error
        case AuthRequired() | LoginRequired():
            return ApiError(409, f"The agent needs a login on the computer: {one_line(str(error))}")
        case RequestError():
            return ApiError(502, f"The agent refused: {one_line(str(error))}")
        case _:
            return ApiError(409, one_line(str(error) or type(error).__name__))
