"""A turn for the tools of the MCP server: its progress, its result, and questions to a person."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from mcp import types
from mcp.shared.exceptions import MCPError

from accord.client.events import CommandsChanged, ContentChunk, Plan, Text, ToolCall
from accord.text.excerpt import one_line
from accord.types.content import ImageContent
from accord.types.tool_calls import Diff
from accord_bridges.gateways.mcp_forms import (
    Context,
    Question,
    Result,
    answer_in,
    can_elicit,
    can_visit,
    elicitation,
    form_schema,
    text_content,
)
from accord_bridges.gateways.openai_forms import failure
from accord_bridges.gateways.turns import (
    CallerForm,
    CallerPage,
    CallerQuestion,
    Exchange,
    Happening,
)

_TEXT = 1_000_000  # characters of an answer that are returned; the transcript has all
_IMAGES = 16
_IMAGE_BYTES = 8 << 20  # of all images of an answer
_LINES = 256  # of progress that wait for a slow caller
_CHANGES = frozenset({"edit", "delete", "move"})


class Turn:
    """A turn, of which the calls of tools tell their callers.

    `calls` is the number of calls that wait for it: without one it ends after `answer_s`.
    """

    def __init__(self, exchange: Exchange, agent: str, learnt: Callable[[Any], None]) -> None:
        self.id = secrets.token_urlsafe(16)
        self.exchange = exchange
        self.agent = agent
        self.calls = 0
        self.asked: set[str] = set()  # the questions that a call asks now
        self.is_left = False  # its caller has a question, and may not return
        self.declined: list[str] = []
        self.news = asyncio.Event()
        self.lines: deque[str] = deque(maxlen=_LINES)
        self.line_count = 0
        self.told = 0  # of the lines
        self._learnt = learnt
        self._questions: dict[str, Question] = {}
        self._text: list[str] = []
        self._length = 0
        self._images: list[types.ImageContent] = []
        self._image_bytes = 0
        self._message: str | None = None
        self._breaks = False
        self._files: dict[str, None] = {}
        self._left: asyncio.TimerHandle | None = None
        self._reading = asyncio.create_task(self._read(), name="accord gateway mcp turn")
        self._reading.add_done_callback(lambda _: self.tell())

    @property
    def session(self) -> str:
        return self.exchange.conversation.id

    @property
    def has_ended(self) -> bool:
        return self._reading.done()

    @property
    def questions(self) -> list[Question]:
        """What waits for an answer."""
        return [one for one in self._questions.values() if self.exchange.is_open(one.id)]

    def answered(self, question: Question, given: object) -> None:
        """Pass on what the person has answered."""
        answer = answer_in(question, given)
        if isinstance(question, CallerQuestion):
            request = question.request
            if not any(option.id == answer and option.allows for option in request.options):
                self.declined.append(one_line(request.title or request.command or "?", 200))
        self.exchange.answer(question.id, answer)

    async def _read(self) -> None:
        while True:
            async for found in self.exchange.happenings():
                for item in found:
                    self._take(item)
                self.tell()
            if self.exchange.has_ended:
                break
        self._learnt(self.exchange.conversation.commands)

    def tell(self) -> None:
        """Wake those that wait for news."""
        self.news.set()
        self.news = asyncio.Event()

    def _take(self, item: Happening) -> None:
        match item:
            case Text():
                self._add(item.text, item.message_id)
            case ToolCall():
                self._called(item)
            case Plan():
                now = next((one.content for one in item.entries if one.status == "in_progress"), "")
                done = sum(one.status in ("completed", "cancelled") for one in item.entries)
                if item.entries:
                    self._line(f"Plan, {done} of {len(item.entries)} done: {now}".rstrip(": "))
            case ContentChunk(content=ImageContent() as image, role="agent"):
                self._image_bytes += len(image.data)
                if len(self._images) < _IMAGES and self._image_bytes <= _IMAGE_BYTES:
                    data = b64encode(image.data).decode()
                    self._images.append(
                        types.ImageContent(type="image", data=data, mime_type=image.mime_type)
                    )
            case CommandsChanged():
                self._learnt(item.commands)
            case CallerQuestion() | CallerForm() | CallerPage():
                self._questions[item.id] = item
            case _:
                pass

    def _add(self, text: str, message: str | None) -> None:
        if self._text and (self._breaks or message != self._message):
            self._text.append("\n\n")
        self._breaks, self._message = False, message
        if self._length < _TEXT:
            self._text.append(text[: _TEXT - self._length])
        self._length += len(text)

    def _called(self, call: ToolCall) -> None:
        self._breaks = True
        if {"title", "status"} & {*call.changed}:
            self._line(f"{call.title or call.name or call.kind}: {call.shown_status}")
        for part in call.content:
            if isinstance(part, Diff) and call.status != "failed":
                self._files |= dict.fromkeys((part.path, *part.others))
        if call.kind in _CHANGES and call.status == "completed":
            self._files |= dict.fromkeys(place.path for place in call.locations)

    def _line(self, line: str) -> None:
        line = one_line(line, 200)
        if not self.lines or self.lines[-1] != line:
            self.lines.append(line)
            self.line_count += 1

    def fresh_lines(self) -> list[tuple[int, str]]:
        """Return the lines of progress since the last call, with their numbers."""
        fresh = min(self.line_count - self.told, len(self.lines))
        self.told = self.line_count
        return [*enumerate([*self.lines][len(self.lines) - fresh :], self.told - fresh + 1)]

    @contextmanager
    def attended(self) -> Generator[None]:
        """A call waits for the turn, which is cancelled if there is none for a time."""
        self.calls += 1
        if self._left is not None:
            self._left.cancel()
        try:
            yield
        finally:
            self.calls -= 1
            if not self.calls and not self.has_ended:
                leave_s = self.exchange.conversation.sessions.settings.answer_s
                loop = asyncio.get_running_loop()
                self._left = loop.call_later(leave_s, self.exchange.cancel)

    async def wait_ended(self) -> None:
        await asyncio.wait([self._reading])

    async def aclose(self) -> None:
        if self._left is not None:
            self._left.cancel()
        self.exchange.cancel()
        await self.wait_ended()

    def result(self) -> types.CallToolResult:
        """Return what the turn has come to."""
        error = failure(self.exchange) if self.has_ended else None
        forms = [one for one in self.questions if isinstance(one, CallerForm)]
        if self.has_ended:
            state = "completed" if error is None else "failed"
        else:
            state = "input_required" if forms else "working"
        used = self.exchange.usage
        rejected = [*self.exchange.rejected, *self.declined]
        text = "".join(self._text)
        found: dict[str, Any] = {
            "session": self.session,
            "agent": self.agent,
            "state": state,
            "stop_reason": self.exchange.stop_reason,
            "text": text,
            "truncated": self._length > _TEXT,
            "changed_files": [*self._files],
            "rejected": rejected,
            "usage": None if used is None else msgspec.to_builtins(used),
            "questions": [
                {"id": one.id, "message": one.form.message, "schema": form_schema(one.form)}
                for one in forms
            ],
        }
        # Clients that show a model the content only.
        lines = [f"session: {self.session}", f"state: {state}"]
        if error is not None:
            lines.append(f"error: {error}")
        if self._files:
            lines.append(f"changed files: {', '.join(self._files)}")
        if rejected:
            lines.append(f"not allowed: {', '.join(rejected)}")
        lines += (f"question {one.id}: {one.form.message}" for one in forms)
        content: list[types.ContentBlock] = [text_content(text)] if text else []
        content += [*self._images, text_content("\n".join(lines))]
        return types.CallToolResult(
            content=content, structured_content=found, is_error=error is not None
        )


# Calls that wait for a turn.


async def follow(
    context: Context,
    turn: Turn,
    seconds: float | None,
    left: asyncio.Event,
    *,
    only_waits: bool = False,
) -> Result:
    """Wait for a turn, tell of its progress, and let the person answer its questions.

    A caller that leaves, for which `left` is set or the call is cancelled, cancels the turn unless
    it `only_waits`.
    """
    loop = asyncio.get_running_loop()
    until = None if seconds is None else loop.time() + seconds
    elicits, visits = can_elicit(context), can_visit(context)
    asking: set[asyncio.Task[None]] = set()
    try:
        turn.is_left = False
        with turn.attended():
            while not turn.has_ended:
                news = turn.news
                await _tell_progress(context, turn)
                questions = turn.questions
                asked = [
                    one for one in questions if (visits if isinstance(one, CallerPage) else elicits)
                ]
                if asked and not context.session.can_send_request:
                    turn.is_left = True
                    return types.InputRequiredResult(
                        input_requests={one.id: elicitation(turn.agent, one) for one in asked},
                        request_state=turn.id,
                    )
                if not elicits and any(isinstance(one, CallerForm) for one in questions):
                    turn.is_left = True
                    return turn.result()
                for question in asked:
                    if question.id not in turn.asked:
                        turn.asked.add(question.id)
                        asking.add(asyncio.create_task(_elicit(context, turn, question)))
                if turn.has_ended or news.is_set():
                    continue
                if not await _first(news, left, until):
                    break
                if left.is_set():
                    if not only_waits:
                        turn.exchange.cancel()
                    break
        await _tell_progress(context, turn)
    except asyncio.CancelledError:
        if not only_waits:
            turn.exchange.cancel()
        raise
    finally:
        for task in asking:
            task.cancel()
    return turn.result()


async def _tell_progress(context: Context, turn: Turn) -> None:
    for number, line in turn.fresh_lines():
        await context.session.report_progress(number, message=line)


async def _elicit(context: Context, turn: Turn, question: Question) -> None:
    """Ask the person. Stop asking when the question was answered elsewhere."""
    session = context.session
    match elicitation(turn.agent, question).params:
        case types.ElicitRequestURLParams() as page:
            asking = session.elicit_url(page.message, page.url, question.id, context.request_id)
        case form:
            asking = session.elicit_form(form.message, form.requested_schema, context.request_id)
    asked = asyncio.create_task(asking)
    closed = asyncio.create_task(turn.exchange.wait_closed(question.id))
    given: object = None
    try:
        await asyncio.wait([asked, closed], return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            with suppress(MCPError, ValueError):
                given = asked.result()
            turn.answered(question, given)
    finally:
        turn.asked.discard(question.id)
        asked.cancel()
        closed.cancel()


async def _first(one: asyncio.Event, other: asyncio.Event, until: float | None) -> bool:
    """Wait for one of two events; return False if it is too late."""
    waits = [asyncio.create_task(one.wait()), asyncio.create_task(other.wait())]
    try:
        async with asyncio.timeout_at(until):
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        return False
    finally:
        for wait in waits:
            wait.cancel()
    return True
