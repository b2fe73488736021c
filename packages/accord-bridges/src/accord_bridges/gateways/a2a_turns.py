"""Turns as A2A tasks: what happens becomes artifacts and states, which subscribers read.

The agent's permission requests, forms and URLs are questions, which a message to the task answers.
Below are the parts of messages and of artifacts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from a2a.types import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InternalError, InvalidParamsError
from google.protobuf.json_format import MessageToDict, ParseDict

from accord import ContentBlock, EmbeddedResource, ImageContent, ResourceLink
from accord.client.elicitation import form_error
from accord.client.events import ContentChunk, Plan, Text, Thought, ToolCall
from accord.remote.access import Principal
from accord.text import lenient_json
from accord.types.content import AudioContent
from accord.types.diffs import git_patch
from accord.types.tool_calls import Diff
from accord_bridges.gateways.a2a_tasks import FINAL, Notifier, StoredTasks, agent_message
from accord_bridges.gateways.openai_forms import failure, image_type, permission_arguments
from accord_bridges.gateways.turns import (
    CallerForm,
    CallerPage,
    CallerQuestion,
    Exchange,
    Happening,
)

log: logging.Logger = logging.getLogger("accord.gateway")

TaskEvent: TypeAlias = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent
_Question: TypeAlias = CallerQuestion | CallerForm | CallerPage

_SUBMITTED, _WORKING = TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING
_ASKS = TaskState.TASK_STATE_INPUT_REQUIRED
_ENDS = {
    "end_turn": TaskState.TASK_STATE_COMPLETED,
    "refusal": TaskState.TASK_STATE_REJECTED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
}
_SAVE_S = 1.0  # between saves of a task that goes on; more if they are slow
_EVENTS = 10_000  # that a subscriber has not read; then it has to subscribe again
_CHARS = 20_000  # of the text of a question


class TaskTurn:
    """A task whose turn runs, and its subscribers. `rests` is set while it asks, and at its end.

    It is in `running` until its turn has ended.
    """

    def __init__(
        self,
        running: dict[str, TaskTurn],
        stored: StoredTasks,
        notifier: Notifier,
        agent: str,
        principal: Principal,
        task: Task,
        exchange: Exchange,
    ) -> None:
        self.task = task
        self.exchange = exchange
        self.questions: dict[str, _Question] = {}
        """The questions that the caller has not answered."""
        self.rests = asyncio.Event()
        running[task.id] = self
        self._running, self._stored, self._notifier = running, stored, notifier
        self._agent = agent
        self._principal = principal
        self._artifacts: dict[str, Artifact] = {}
        self._streams: dict[str, tuple[str | None, list[str]]] = {}  # text that is not in them yet
        self._shown: dict[str, tuple[str, str]] = {}  # tool calls
        self._readers: set[_Reader] = set()
        self._changed = True
        self._next_save = 0.0
        self.pump = asyncio.create_task(self._run(), name="accord gateway task")

    def is_of(self, agent: str, principal: Principal) -> bool:
        """Whether the task is of this agent, and for this principal."""
        mine = principal.all_sessions or principal.name == self._principal.name
        return mine and agent == self._agent

    # Subscribers.

    async def events(self, *, until_question: bool = False) -> AsyncGenerator[TaskEvent, None]:
        """Yield the task as it is, and what happens to it, until it ends or asks."""
        reader = _Reader(until_question)
        self._readers.add(reader)
        try:
            yield self.snapshot()
            if self.task.status.state in FINAL or (until_question and self.rests.is_set()):
                return
            while (event := await reader.next()) is not None:
                yield event
        finally:
            self._readers.discard(reader)

    def _emit(self, event: TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        self._changed = True
        for reader in self._readers:
            reader.put(event)

    def snapshot(self) -> Task:
        """Return a copy of the task."""
        for name, (message_id, texts) in self._streams.items():
            if texts:
                part = self._artifacts[name].parts[-1]
                part.text += "".join(texts)
                self._streams[name] = message_id, []
        copied = Task()
        copied.CopyFrom(self.task)
        return copied

    def save(self) -> None:
        """Store the task as it is, if it has changed."""
        if self._changed:
            self._changed = False
            self._stored.put(self.snapshot(), self._agent, self._principal.name)

    def _save_sometimes(self) -> None:
        now = time.monotonic()
        if self._changed and now >= self._next_save:
            self.save()
            after = time.monotonic()
            self._next_save = after + max(_SAVE_S, 20 * (after - now))

    # What happens in the turn.

    async def _run(self) -> None:
        exchange = self.exchange
        try:
            self.save()
            while True:
                async for found in exchange.happenings():
                    if self.task.status.state == _SUBMITTED:
                        self._set(_WORKING)
                    asked = self._drop_answered()
                    for item in found:
                        self._take(item)
                    if asked and not self.questions:
                        self._set(_WORKING)
                    self._save_sometimes()
                if exchange.has_ended:
                    break
                self._ask()
            self._end()
        except Exception as error:
            log.exception("! a task failed")
            exchange.cancel()
            text = f"Internal error: {type(error).__name__}"
            self._set(TaskState.TASK_STATE_FAILED, [Part(text=text)])
        finally:
            self.rests.set()
            del self._running[self.task.id]

    def _drop_answered(self) -> bool:
        """Forget the questions that others have answered; return whether there were any."""
        waiting = self.exchange.conversation.sessions.waiting
        gone = [question for question in self.questions if question not in waiting]
        for question in gone:
            del self.questions[question]
        return bool(gone)

    def _take(self, item: Happening) -> None:
        match item:
            case Text():
                self._say("response", item.text, item.message_id)
            case Thought():
                self._say("thoughts", item.text, item.message_id)
            case ContentChunk(role="agent"):
                self._add("response", [_part(item.content)])
            case Plan():
                self._plan(item)
            case ToolCall():
                self._tool(item)
            case CallerQuestion() | CallerForm() | CallerPage():
                self.questions[item.id] = item
            case _:
                pass

    def _say(self, name: str, text: str, message_id: str | None) -> None:
        stream = self._streams.get(name)
        if stream is None or stream[0] != message_id:
            self._streams[name] = message_id, []
            self._add(name, [Part(text=text, media_type="text/markdown")])
            return
        stream[1].append(text)
        self._changed = True
        for reader in self._readers:
            reader.put_text(self.task, name, text)

    def _add(self, name: str, parts: Sequence[Part]) -> None:
        """Append parts to an artifact."""
        artifact = self._artifacts.get(name)
        event = TaskArtifactUpdateEvent(
            task_id=self.task.id, context_id=self.task.context_id, append=artifact is not None
        )
        event.artifact.artifact_id = event.artifact.name = name
        event.artifact.parts.extend(parts)
        if artifact is None:
            self.task.artifacts.append(event.artifact)
            self._artifacts[name] = self.task.artifacts[-1]
        else:
            if name in self._streams:
                self.snapshot()
            artifact.parts.extend(parts)
        self._emit(event)

    def _replace(self, artifact: Artifact) -> None:
        """Replace an artifact as a whole."""
        found = self._artifacts.get(artifact.artifact_id)
        if found is None:
            self.task.artifacts.append(artifact)
            self._artifacts[artifact.artifact_id] = self.task.artifacts[-1]
        else:
            found.CopyFrom(artifact)
        event = TaskArtifactUpdateEvent(
            task_id=self.task.id, context_id=self.task.context_id, artifact=artifact
        )
        event.last_chunk = True
        self._emit(event)

    def _plan(self, plan: Plan) -> None:
        name = "plan" if plan.id is None else f"plan-{plan.id}"
        marks = {"completed": "x", "in_progress": "-", "cancelled": "/"}
        lines = [f"- [{marks.get(one.status, ' ')}] {one.content}" for one in plan.entries]
        text = "(removed)" if plan.removed else plan.markdown or plan.uri or "\n".join(lines)
        entries = [
            {"content": one.content, "status": one.status, "priority": one.priority}
            for one in plan.entries
        ]
        parts = [Part(text=text, media_type="text/markdown"), _data({"entries": entries})]
        self._replace(Artifact(artifact_id=name, name="plan", parts=parts))

    def _tool(self, call: ToolCall) -> None:
        title = call.title or call.name or call.id
        if self._shown.get(call.id) != (title, call.status) and not self.questions:
            is_new = call.id not in self._shown
            self._shown[call.id] = title, call.status
            about: dict[str, Any] = {
                "toolCallId": call.id,
                "title": title,
                "kind": call.kind,
                "status": call.status,
                "name": call.name,
                "input": call.raw_input if is_new else None,
                "paths": [place.path for place in call.locations],
            }
            if call.is_final:
                about["output"] = _output(call)[:_CHARS]
            about = {name: value for name, value in about.items() if value not in (None, [], "")}
            self._set(_WORKING, [Part(text=f"{title}: {call.status}"), _data(about)], quiet=True)
        if call.status != "completed" or "status" not in call.changed:
            return
        for number, part in enumerate(call.content):
            if isinstance(part, Diff):
                patch = part.patch or git_patch(part.path, part.old, part.new)
                artifact = Artifact(
                    artifact_id=f"edit-{call.id}-{number}",
                    name=f"edit {part.path}",
                    parts=[Part(text=patch, media_type="text/x-diff")],
                )
                artifact.metadata.update({"path": part.path, "toolCallId": call.id})
                self._replace(artifact)

    def _set(
        self,
        state: TaskState,
        parts: Sequence[Part] = (),
        *,
        quiet: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Change the status. If it is not `quiet`, it is saved, and notifications are sent."""
        status = TaskStatus(state=state)
        status.timestamp.GetCurrentTime()
        if parts:
            status.message.CopyFrom(agent_message(self.task, parts))
        self.task.status.CopyFrom(status)
        if parts and not quiet:
            self.task.history.append(status.message)
        event = TaskStatusUpdateEvent(
            task_id=self.task.id, context_id=self.task.context_id, status=status
        )
        if metadata is not None:
            event.metadata.update({"acp": metadata})
            self.task.metadata.update({"acp": metadata})
        if not quiet:
            self._changed = True
            self.save()
            self._notifier.notify(self.task.id, event)
        self._emit(event)

    def _end(self) -> None:
        exchange = self.exchange
        about: dict[str, Any] = {"sessionId": exchange.conversation.id}
        for name in self._streams:
            event = TaskArtifactUpdateEvent(
                task_id=self.task.id, context_id=self.task.context_id, append=True, last_chunk=True
            )
            event.artifact.artifact_id = event.artifact.name = name
            event.artifact.parts.append(Part(text="", media_type="text/markdown"))
            self._emit(event)
        error = failure(exchange)
        if error is not None:
            self._set(TaskState.TASK_STATE_FAILED, [Part(text=str(error))], metadata=about)
            return
        reason = exchange.stop_reason or "cancelled"
        about["stopReason"] = reason
        state = _ENDS.get(reason, TaskState.TASK_STATE_FAILED)
        used = exchange.usage
        if used is not None:
            about["usage"] = {
                "inputTokens": used.input,
                "outputTokens": used.output,
                "totalTokens": used.total,
            }
        text = "" if reason in ("end_turn", "cancelled") else f"The agent stopped: {reason}"
        if reason == "cancelled" and self.questions:
            text = "The turn was cancelled while a question was open"
        self._set(state, [Part(text=text)] if text else (), metadata=about)

    # Questions to the caller.

    def heard(self, message: Message) -> None:
        """Add a message of the caller to the history."""
        copied = Message()
        copied.CopyFrom(message)
        copied.task_id, copied.context_id = self.task.id, self.task.context_id
        self.task.history.append(copied)
        self._changed = True

    def _ask(self) -> None:
        if not self.questions:
            return
        parts: list[Part] = []
        for question in self.questions.values():
            text, about = _asked(question)
            parts += (Part(text=text[:_CHARS]), _data(about))
        self.rests.set()
        self._set(_ASKS, parts)

    def answer(self, message: Message) -> None:
        """Give the answers of a message. Raises `InvalidParamsError` if it answers nothing."""
        given = [
            MessageToDict(part.data)
            for part in message.parts
            if part.WhichOneof("content") == "data"
        ]
        text = "\n".join(part.text for part in message.parts if part.text).strip()
        answers: dict[str, Any] = {}
        for one in given:
            if lenient_json.is_object(one) and one.get("id") in self.questions:
                question = self.questions[str(one["id"])]
                answers[question.id] = _answer(question, one)
        if not given and len(self.questions) == 1:
            [question] = self.questions.values()
            answers[question.id] = _answer(question, _object(text))
        if not answers:
            ids = ", ".join(self.questions)
            raise InvalidParamsError(
                f'message.parts: expected an answer as data {{"id": …}} for one of {ids}'
            )
        self.heard(message)
        for question_id, value in answers.items():
            del self.questions[question_id]
            self.exchange.answer(question_id, value)
        if self.questions:
            self._ask()
        else:
            self.rests.clear()
            self._set(_WORKING)


class _Reader:
    """What a subscriber has not read. Text that it does not read yet becomes one event."""

    def __init__(self, until_question: bool) -> None:
        self._until_question = until_question
        self._has_ended = False
        self._is_late = False
        self._items: deque[TaskStatusUpdateEvent | TaskArtifactUpdateEvent | _Said] = deque()
        self._changed = asyncio.Event()

    def put(self, event: TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        self._append(event)

    def _append(self, item: TaskStatusUpdateEvent | TaskArtifactUpdateEvent | _Said) -> None:
        if len(self._items) >= _EVENTS:
            self._is_late = True
            self._items.clear()
        if not self._is_late:
            self._items.append(item)
        self._changed.set()

    def put_text(self, task: Task, name: str, text: str) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, _Said) and last.name == name:
            last.texts.append(text)
        else:
            self._append(_Said(task, name, text))

    async def next(self) -> TaskStatusUpdateEvent | TaskArtifactUpdateEvent | None:
        """Return the next event, None after the last one.

        Raises `InternalError` if there were too many that were not read.
        """
        while not self._items and not self._is_late:
            if self._has_ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        if self._is_late:
            raise InternalError("The events were not read in time: subscribe again")
        item = self._items.popleft()
        if isinstance(item, _Said):
            return item.event()
        if isinstance(item, TaskStatusUpdateEvent):
            state = item.status.state
            if state in FINAL or (self._until_question and state == _ASKS):
                self._items.clear()
                self._has_ended = True
        return item


class _Said:
    """Text that is appended to an artifact."""

    def __init__(self, task: Task, name: str, text: str) -> None:
        self.name = name
        self.texts = [text]
        self._task = task

    def event(self) -> TaskArtifactUpdateEvent:
        event = TaskArtifactUpdateEvent(
            task_id=self._task.id, context_id=self._task.context_id, append=True
        )
        event.artifact.artifact_id = event.artifact.name = self.name
        part = Part(text="".join(self.texts), media_type="text/markdown")
        event.artifact.parts.append(part)
        return event


# Questions and their answers.


def _asked(question: _Question) -> tuple[str, dict[str, Any]]:
    """Return a question for people, and for programs."""
    about: dict[str, Any] = {"id": question.id}
    if isinstance(question, CallerQuestion):
        about |= {"type": "permission", **permission_arguments(question.request)}
        request = question.request
        if request.tool_call is not None:
            about["toolCallId"] = request.tool_call.id
        options = ", ".join(f"{one.id} ({one.name})" for one in request.options)
        title = request.title or request.command or "May the agent do this?"
        more = f"\n{request.description}" if request.description else ""
        return f"{title}{more}\nAnswer with one of: {options}", about
    if isinstance(question, CallerPage):
        page = question.page
        about |= {"type": "url", "message": page.message, "url": page.url}
        return f"{page.message}\n{page.url}\nAnswer with accept or decline", about
    form = question.form
    fields: list[dict[str, Any]] = []
    for field in form.fields:
        shown: dict[str, Any] = {
            "name": field.name,
            "kind": field.kind,
            "title": field.title,
            "description": field.description,
            "required": field.required,
            "default": field.default,
            "minimum": field.minimum,
            "maximum": field.maximum,
            "choices": [{"value": one.value, "name": one.name} for one in field.choices],
        }
        fields.append({name: value for name, value in shown.items() if value not in (None, [])})
    about |= {"type": "form", "message": form.message, "fields": fields}
    names = ", ".join(f"{field.title} ({field.name})" for field in form.fields)
    return f"{form.message}\nAnswer with the values of: {names}; or decline", about


def _object(text: str) -> Mapping[str, Any]:
    """Return the answer of a text."""
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if lenient_json.is_object(found):
            return {"values": found, **found}
    return {"text": text}


_WORDS = {
    "allow": "allow_once",
    "yes": "allow_once",
    "deny": "reject_once",
    "reject": "reject_once",
    "no": "reject_once",
}


def _answer(question: _Question, given: Mapping[str, Any]) -> Any:
    """Return what the turn gets for an answer. Raises `InvalidParamsError`."""
    if isinstance(question, CallerQuestion):
        chosen = str(given.get("option") or given.get("option_id") or given.get("text") or "")
        options = question.request.options
        for wanted in (chosen, _WORDS.get(chosen.strip().casefold())):
            for option in options:
                if wanted and wanted in (option.id, option.kind, option.name):
                    return option.id
        ids = ", ".join(option.id for option in options)
        raise InvalidParamsError(f"option: expected one of {ids}, got {chosen[:80]!r}")
    word = str(given.get("text") or "").strip().casefold()
    declined = bool(given.get("declined")) or word in ("decline", "declined")
    if isinstance(question, CallerPage):
        if declined or given.get("accepted") is False:
            return False
        if given.get("accepted") is True or word in ("accept", "accepted"):
            return True
        raise InvalidParamsError('Expected {"id": …, "accepted": true or false}')
    if declined:
        return None
    form = question.form
    values: Any = given.get("values")
    if values is None and "text" in given and len(form.fields) == 1:
        [field] = form.fields
        values = {field.name: _converted(field.kind, str(given["text"]))}
    if not lenient_json.is_object(values):
        raise InvalidParamsError('values: expected an object, or {"declined": true}')
    kinds = {field.name: field.kind for field in form.fields}
    # JSON of protobuf has no integers.
    values = {
        name: int(value)
        if kinds.get(name) == "integer" and isinstance(value, float) and value.is_integer()
        else value
        for name, value in values.items()
    }
    if (wrong := form_error(form, values)) is not None:
        raise InvalidParamsError(f"values: {wrong}")
    return values


def _converted(kind: str, text: str) -> Any:
    if kind in ("integer", "number", "boolean"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return [text] if kind == "choices" else text


# Content.


def _output(call: ToolCall) -> str:
    """Return the text that a tool call shows."""
    return "\n".join(part for part in call.content if isinstance(part, str))


def _data(value: dict[str, Any]) -> Part:
    part = Part(media_type="application/json")
    ParseDict(value, part.data)
    return part


def content_of(part: Part, number: int) -> list[ContentBlock]:
    """Return the content of a part. Raises `InvalidParamsError` for one that is broken."""
    where = f"message.parts[{number}]"
    name, kind = part.filename or "file", part.media_type
    match part.WhichOneof("content"):
        case "text":
            return [part.text] if part.text else []
        case "data":
            text = json.dumps(MessageToDict(part.data), ensure_ascii=False, indent=1)
            return [f"\n```json\n{text}\n```\n"]
        case "url":
            return [ResourceLink(part.url, name, mime_type=kind or None)]
        case "raw":
            pass
        case _:
            raise InvalidParamsError(f"{where}: expected text, raw, url or data")
    if kind.startswith("image/"):
        found = image_type(part.raw)
        if found is None:
            raise InvalidParamsError(
                f"{where}.raw: expected a PNG, JPEG, GIF or WebP image, got {len(part.raw)} other"
                " bytes"
            )
        return [ImageContent(part.raw, found)]
    if kind.startswith("audio/"):
        return [AudioContent(part.raw, kind)]
    content: str | bytes = part.raw
    if kind.startswith("text/") or kind in ("application/json", "application/xml"):
        try:
            content = part.raw.decode()
        except UnicodeDecodeError:
            raise InvalidParamsError(f"{where}.raw: expected UTF-8 text for {kind}") from None
    return [EmbeddedResource(f"file:///{quote(name)}", content, mime_type=kind or None)]


def _part(content: ContentBlock) -> Part:
    """Return the part for content of the agent."""
    match content:
        case str():
            return Part(text=content, media_type="text/markdown")
        case ImageContent() | AudioContent():
            return Part(raw=content.data, media_type=content.mime_type)
        case ResourceLink():
            return Part(url=content.uri, filename=content.name, media_type=content.mime_type or "")
        case EmbeddedResource():
            name = content.uri.rpartition("/")[2]
            kind = content.mime_type or ""
            if isinstance(content.content, str):
                return Part(text=content.content, filename=name, media_type=kind)
            return Part(raw=content.content, filename=name, media_type=kind)
        case _:
            return Part(text=f"[{type(content).__name__}]")
