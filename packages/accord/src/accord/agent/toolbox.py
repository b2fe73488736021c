"""What turns and sessions create: compactions, elicitations, plans, messages, files, commands.

`Toolbox` makes them. It is imported with the first session, not with `accord.Turn`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from types import NoneType, TracebackType
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from accord.agent.files_and_terminals import SessionFiles, SessionTerminals
from accord.agent.session_core import SessionCore
from accord.agent.subagent import SubagentCore
from accord.agent.tool_call import BaseToolCall, current_tool_call
from accord.agent.updates import (
    CompactionSummaryUpdate,
    CompactionUpdate,
    PlanRemoved,
    PlanUpdate,
    SessionMessageUpdate,
)
from accord.connection.tasks import is_stopped
from accord.errors import RemoteProtocolError
from accord.types.content import ContentBlock, require_content
from accord.types.must_await import must_await
from accord.types.session import PlanEntry
from accord.types.validation import require_name, require_type, require_types

# A compaction: the model's context is being shortened.


class CompactionHandle:
    """A compaction, to enter: leaving the block completes it, fails it or cancels it."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self.id: str = core.next_id("compaction")
        self._has_ended = False

    async def __aenter__(self) -> CompactionHandle:
        self._core.end_message()
        await self._core.publish(CompactionUpdate(self.id, "in_progress"))
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        if isinstance(error, asyncio.CancelledError) or is_stopped():
            await self._end("cancelled")
        else:
            await self._end("completed" if error is None else "failed")

    async def summary(self, content: ContentBlock) -> None:
        """Append to the summary of the context, which the user can read (R-COMP-06)."""
        require_content("summary(content=…)", content)
        await self._core.publish(CompactionSummaryUpdate(self.id, content))

    async def fail(self, why: str | None = None) -> None:
        """End as failed, with a reason for the user."""
        require_type("fail(why=…)", why, str, NoneType)
        await self._end("failed", why)

    async def _end(self, status: str, why: str | None = None) -> None:
        if not self._has_ended and not self._core.closed:
            self._has_ended = True  # R-COMP-03
            error = UNSET if why is None else why
            await self._core.publish(CompactionUpdate(self.id, status, error))


# Elicitation: the user fills in a form made from a msgspec Struct, or opens a web page.

F = TypeVar("F", bound=msgspec.Struct)

MAX_URL_CHARS = 8192  # the limit of browsers and servers

_SCHEMA_KEYS = {
    "string": ("minLength", "maxLength", "pattern", "format", "enum"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}


class UrlElicitation:
    """An elicitation by URL that the user has agreed to."""

    def __init__(self, core: SessionCore, elicitation_id: str) -> None:
        self._core = core
        self.id = elicitation_id

    async def done(self) -> None:
        """Report that the user has completed it on the web page."""
        await self._core.client_adapter.complete_elicitation(self.id)


async def elicit_form(core: SessionCore, form: type[F], message: str) -> F | None:
    """See `SessionActions.elicit_form`."""
    schema = form_schema(form)
    call = current_tool_call(core)
    async with core.waiting_for_user(detached=_is_detached(core, call)):
        answer = await core.client_adapter.elicit_form(
            core.id, message, schema, None if call is None else call.id
        )
    if answer is None:
        return None
    try:
        return msgspec.convert(answer, form)  # R-ELIC-18
    except msgspec.ValidationError as exc:
        raise RemoteProtocolError(f"The answer does not fit the form: {exc}", raw=answer) from exc


def _is_detached(core: SessionCore, call: BaseToolCall | None) -> bool:
    if call is not None:
        return call.is_in_background
    turn = core.turn_here()
    return turn is None or turn.is_over


async def elicit_url(core: SessionCore, url: str, message: str) -> UrlElicitation | None:
    """See `SessionActions.elicit_url`."""
    if len(url) > MAX_URL_CHARS:
        raise ValueError(f"elicit_url(url=…): {len(url)} characters, the limit is {MAX_URL_CHARS}")
    call = current_tool_call(core)
    elicitation_id = f"{core.id}-{core.next_id('elicitation')}"  # R-ELIC-28
    async with core.waiting_for_user(detached=_is_detached(core, call)):
        agreed = await core.client_adapter.elicit_url(
            core.id, message, url, elicitation_id, None if call is None else call.id
        )
    return UrlElicitation(core, elicitation_id) if agreed else None


def form_schema(form: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a form; raise TypeError for a field that forms do not support."""
    (described,), _ = msgspec.json.schema_components([form], ref_template="{name}")
    components: dict[str, Any] = _[described["$ref"]]
    properties = {
        name: _property(name, schema) for name, schema in components["properties"].items()
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := components.get("required"):
        schema["required"] = required
    return schema


def _property(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    choices = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
    if len(choices) == 1:  # None means "not filled in"
        schema = {**schema, **choices[0]}
    kind = schema.get("type", "string" if "enum" in schema else None)
    values: list[Any] = schema.get("enum", [])
    if kind not in _SCHEMA_KEYS or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{name}: a form has no field for {schema}")
    found: dict[str, Any] = {
        "type": kind,
        "title": schema.get("title", name.replace("_", " ").capitalize()),
    }
    for key in ("description", *_SCHEMA_KEYS[kind]):
        if key in schema:
            found[key] = schema[key]
    if kind == "integer":  # forms have closed bounds only
        if "exclusiveMinimum" in schema:
            found["minimum"] = schema["exclusiveMinimum"] + 1
        if "exclusiveMaximum" in schema:
            found["maximum"] = schema["exclusiveMaximum"] - 1
    if kind == "array":
        items = schema.get("items", {}).get("enum")
        if not items or not all(isinstance(value, str) for value in items):
            raise TypeError(f"{name}: a list in a form is a list of Literals")
        found["items"] = {"type": "string", "enum": items}
    if schema.get("default") is not None:
        found["default"] = schema["default"]
    return found


# A plan that the agent has shown and can update.

_STATUSES = ("pending", "in_progress", "completed", "cancelled")
_PRIORITIES = ("high", "medium", "low")


class PlanHandle:
    """The entries of a plan; every change sends all of them (R-PLAN-02, R-PLAN-05)."""

    def __init__(self, core: SessionCore, plan_id: str) -> None:
        self._core = core
        self.id = plan_id
        """The id of the plan."""
        self.entries: list[PlanEntry] = []
        """The entries of the plan."""

    @must_await("plan")
    async def update(
        self,
        entry: int | str,
        *,
        status: Literal["pending", "in_progress", "completed", "cancelled"] | str | None = None,
        content: str | None = None,
        priority: Literal["high", "medium", "low"] | str | None = None,
    ) -> None:
        """Change an entry, found by its index or its content."""
        require_type("update(entry=…)", entry, int, str)
        index = entry if isinstance(entry, int) else self._index(entry)
        old = self.entries[index]
        self.entries[index] = PlanEntry(
            old.content if content is None else content,
            old.status if status is None else status,
            old.priority if priority is None else priority,
        )
        await self._show()

    @must_await("plan")
    async def replace(self, entries: Iterable[str | PlanEntry]) -> None:
        """Replace all entries."""
        entries = require_types("plan(entries=…)", entries, str, PlanEntry)
        self.entries = [PlanEntry(e) if isinstance(e, str) else e for e in entries]
        await self._show()

    @must_await("plan")
    async def remove(self) -> None:
        """Remove the plan; clients that do not support that show it as empty."""
        await self._core.publish(PlanRemoved(self.id))

    def _index(self, content: str) -> int:
        for index, entry in enumerate(self.entries):
            if entry.content == content:
                return index
        raise KeyError(content)

    async def _show(self) -> None:
        for entry in self.entries:
            require_name("PlanEntry(status=…)", entry.status, _STATUSES)
            require_name("PlanEntry(priority=…)", entry.priority, _PRIORITIES)
        await self._core.publish(PlanUpdate(self.id, tuple(self.entries)))


# Messages from one session to another, shown in both.


async def send(
    sender: SessionCore, recipient: SessionCore, content: Sequence[ContentBlock]
) -> None:
    """See `SessionActions.send_session_message`."""
    if not sender.client_adapter.shows_subagents:
        return
    sent, received = sender.next_id("message"), recipient.next_id("message")
    both = sender.id, recipient.id
    await sender.publish(_session_message(sent, *both, content, recipient_message_id=received))
    await recipient.publish(_session_message(received, *both, content, sender_message_id=sent))


def _session_message(
    message_id: str,
    sender: str,
    recipient: str,
    content: Sequence[ContentBlock],
    *,
    sender_message_id: str | UnsetType = UNSET,
    recipient_message_id: str | UnsetType = UNSET,
) -> SessionMessageUpdate:
    return SessionMessageUpdate(
        id=message_id,
        sender=sender,
        recipient=recipient,
        sender_message_id=sender_message_id,
        recipient_message_id=recipient_message_id,
        content=tuple(content),
    )


class Toolbox:
    """The classes and functions that `SessionActions` and `WorkActions` need when called."""

    compaction = CompactionHandle
    files = SessionFiles
    plan = PlanHandle
    subagent = SubagentCore
    terminals = SessionTerminals

    @staticmethod
    def elicit_form(
        core: SessionCore, form: type[F], message: str
    ) -> Coroutine[Any, Any, F | None]:
        """See `SessionActions.elicit_form`."""
        return elicit_form(core, form, message)

    @staticmethod
    def elicit_url(
        core: SessionCore, url: str, message: str
    ) -> Coroutine[Any, Any, UrlElicitation | None]:
        """See `SessionActions.elicit_url`."""
        return elicit_url(core, url, message)

    @staticmethod
    def send(
        sender: SessionCore, recipient: SessionCore, content: Sequence[ContentBlock]
    ) -> Coroutine[Any, Any, None]:
        """See `SessionActions.send_session_message`."""
        return send(sender, recipient, content)
