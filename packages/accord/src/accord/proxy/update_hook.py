"""Calls `Proxy.update` for each event, and applies what it changes to the update."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from accord.client.events import (
    Event,
    StateChanged,
    Text,
    Thought,
    ToolCall,
    UnknownUpdate,
    UserText,
)
from accord.client.redaction import redacted_streams
from accord.connection.limits import FloodLog
from accord.connection.tasks import Owning
from accord.errors import DecodeError
from accord.proxy.chain_part import ChainPart, ProxyInChain
from accord.proxy.ordered import session_id_of
from accord.proxy.overrides import Overrides, edited_json, raw_of
from accord.proxy.proxied_sessions import ProxiedSession
from accord.proxy.redacted_updates import SessionRedaction
from accord.proxy.stage import Params
from accord.proxy.turns import RunningTurn, Turns
from accord.proxy.versions import ProxiedVersion
from accord.text import lenient_json
from accord.wire.base import replace
from accord.wire.codec import decoder

log: logging.Logger = logging.getLogger("accord.proxy")

_TOOL_CALLS = (b'"tool_call',)
_COMMANDS = (b'"available_commands_update"',)
_ESCAPED = rb"\\u00[2-7]"  # ASCII that needs no escape may hide one of them
_STATES = (b'"state_update"', b'"user_message')


class UpdateHook(ChainPart):
    """Edits the updates of one chain."""

    def __init__(self, chain: ProxyInChain, turns: Turns) -> None:
        super().__init__(chain)
        self._turns = turns
        self._label = f"{self._stage.name}.update"
        self._decode = decoder(self._version.methods["session_update"].params)
        self._commands = self._version.editor.commands_to_wire(tuple(self._proxy.commands))
        self._has_warned = False
        self._log = FloodLog(log)
        self._calls_hook = False
        self._keeps_tool_calls = False
        self._follows_turns = self._version.number == 2
        self._needed = re.compile(rb"(?!)")  # only updates with a match are decoded

    def add_to(self, to_client: Overrides, has: dict[str, bool]) -> None:
        """Edit the updates that the proxy needs to see."""
        self._calls_hook = has["update"]
        self._keeps_tool_calls = has["decide_permission"]
        self._follows_turns = self._follows_turns and (has["prompt"] or has["update"])
        needed = (
            *(_TOOL_CALLS if self._keeps_tool_calls else ()),
            *(_COMMANDS if self._commands else ()),
            *(_STATES if self._follows_turns else ()),
        )
        if not self._calls_hook and not needed:
            return
        self._needed = re.compile(b"|".join((*needed, _ESCAPED)))
        to_client.notifications["session/update"] = self.edit

    def edit(self, method: str, params: Params) -> Params | None | Awaitable[Params | None]:
        """Return an update as the proxy changes it."""
        if params is UNSET:
            return params
        if not self._calls_hook and self._needed.search(bytes(params)) is None:
            return params
        try:
            note = self._decode(params)
        except DecodeError:
            return self._unknown(params)
        session = self._sessions[note.session_id]
        update = note.update
        if isinstance(update, self._version.types.AvailableCommandsUpdate):
            session.has_commands = True
        if self._keeps_tool_calls and isinstance(update, self._version.tool_updates):
            call = self._version.read(update, session.calls)
            if isinstance(call, ToolCall):
                session.keep(call)
        events = self._version.editor.events(update)
        edited: Any = params
        if self._calls_hook and events:
            edited = self._call(session, params, note, events)
        elif self._commands:
            edited = self._changed(params, note, update)
        if not self._follows_turns:
            return edited
        ended = [turn for event in events for turn in self._turns.observe(session, event)]
        if _is_prompt(self._version, update) and any(turn.is_own for turn in session.turns):
            return None  # the proxy has shown it
        if not ended:
            return edited
        waiting = [(turn, turn.settled) for turn in ended if turn.settled is not None]
        return self._end_turns(waiting, params, edited, note)

    async def _end_turns(
        self,
        ended: list[tuple[RunningTurn, asyncio.Future[bool]]],
        params: Params,
        edited: Any,
        note: Any,
    ) -> Params | None:
        if isawaitable(edited):
            edited = await edited
        if any(turn.failure is not None for turn, _ in ended):
            # Nothing of the agent passes, but the state is not lost.
            note = replace(note, update=self._version.types.IdleStateUpdate(), meta=None)
            params = edited = raw_of(note)
        passes = False
        held = params if edited is None else edited
        for turn, settled in ended:
            if await settled:
                passes = True
                held = self._turns.last_of(turn, held, note)
        # A state that ends only turns whose prompts are repeated would end those of the client.
        return held if passes and edited is not None else None

    # The hook.

    def _call(
        self, session: ProxiedSession, params: Raw, note: Any, events: tuple[Event, ...]
    ) -> Any:
        redaction = session.redaction
        redaction.start(is_tool_content=_is_tool_content(self._version, note))
        token = redacted_streams.set(redaction)
        results: list[Any] = []
        try:
            for event in events:
                result = self._proxy.session_update(session.id, event)
                if type(result) is not type(event) and isawaitable(result):
                    later = self._call_later(session, params, note, events, results, result)
                    return Owning(later, result)
                results.append(result)
        except Exception as exc:  # noqa: BLE001  # logged
            return self._failed(session, exc)
        finally:
            redacted_streams.reset(token)
        return self._apply(session, params, note, events, results)

    async def _call_later(
        self,
        session: ProxiedSession,
        params: Raw,
        note: Any,
        events: tuple[Event, ...],
        results: list[Any],
        pending: Awaitable[Any],
    ) -> Params | None:
        redacted_streams.set(session.redaction)
        try:
            results.append(await pending)
            for event in events[len(results) :]:
                result = self._proxy.session_update(session.id, event)
                results.append(await result if isawaitable(result) else result)
        except Exception as exc:  # noqa: BLE001  # logged
            return self._failed(session, exc)
        return self._apply(session, params, note, events, results)

    def _failed(self, session: ProxiedSession, error: Exception) -> None:
        log.error("! %s failed; the update is dropped", self._label, exc_info=error)
        self._turns.fail(session, self._label)

    def _apply(
        self,
        session: ProxiedSession,
        params: Raw,
        note: Any,
        events: tuple[Event, ...],
        results: list[Any],
    ) -> Params | None:
        editor, redaction = self._version.editor, session.redaction
        for event in redaction.flush():
            self._turns.send(session, editor.chunk(event))
        is_dropped_state = results[0] is None and type(events[0]) is StateChanged
        if is_dropped_state:
            results = list(events)
            self._warn_of_dropped_state()
        if len(events) == 1 and results[0] is events[0] and not redaction.used:
            return self._changed(params, note, note.update) if note is not None else params
        try:
            if type(events[0]) is UnknownUpdate:
                return self._with_raw(params, results[0], events[0], redaction)
            if redaction.may_occur_in(bytes(params)):
                params, note = self._redacted(params, note, redaction)
                events = editor.events(note.update)
                results = list(events) if is_dropped_state else results
            if (text := _only_text(events, results)) is not None:
                value = lenient_json.loads(bytes(params))
                value["update"]["content"]["text"] = text
                return raw_of(value)
            return self._changed(params, note, editor.changed(note.update, events, results))
        except Exception as exc:  # noqa: BLE001  # logged
            return self._failed(session, exc)

    def _warn_of_dropped_state(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "! %s returned None for a StateChanged, which passes: without it, a turn would not"
                " end",
                self._label,
            )

    def _redacted(self, params: Raw, note: Any, redaction: SessionRedaction) -> tuple[Raw, Any]:
        """Return an update without secrets in any of its strings, of unknown fields too."""
        value = lenient_json.loads(bytes(params))
        clean = redaction.value(value)
        if clean is value:
            return params, note
        params = raw_of(clean)
        return params, self._decode(params)

    def _changed(self, params: Raw, note: Any, update: Any) -> Params | None:
        if update is None:
            return None
        if self._commands and type(update) is self._version.types.AvailableCommandsUpdate:
            names = {command.name for command in self._commands}
            kept = [c for c in update.available_commands if getattr(c, "name", "") not in names]
            update = replace(update, available_commands=[*kept, *self._commands])
        if update is note.update:
            return params
        return edited_json(params, note, replace(note, update=update))

    # Updates that the types of the version cannot read.

    def _unknown(self, params: Raw) -> Any:
        if not self._calls_hook:
            return params
        session_id = session_id_of(params)
        try:
            value = lenient_json.loads(bytes(params))
        except lenient_json.NotJson:
            value = None
        if session_id is None or not lenient_json.is_object(value):
            self._log.log(
                logging.WARNING,
                "! %s cannot be called: dropped an update of no session",
                self._label,
            )
            return None
        session = self._sessions[session_id]
        event = UnknownUpdate(value.get("update"))
        return self._call(session, params, None, (event,))

    def _with_raw(
        self, params: Raw, result: Any, event: Any, redaction: SessionRedaction
    ) -> Params | None:
        if result is None:
            return None
        if result is event and not redaction.used:
            return params
        value = lenient_json.loads(bytes(params))
        value["update"] = result.raw
        return raw_of(redaction.value(value))


def _only_text(events: tuple[Event, ...], results: list[Any]) -> str | None:
    """Return the new text of a chunk if nothing else has changed, and there is any."""
    old, new = events[0], results[0]
    if not isinstance(old, Text | Thought | UserText) or type(new) is not type(old):
        return None
    if not new.text or new.text == old.text:
        return None
    same: Any = msgspec.structs.replace(old, text=new.text)
    return new.text if same == new else None


def _is_tool_content(version: ProxiedVersion, note: Any) -> bool:
    """Return whether an update appends to the content of a tool call (version 2)."""
    return note is not None and type(note.update) is getattr(
        version.types, "ToolCallContentChunk", None
    )


def _is_prompt(version: ProxiedVersion, update: Any) -> bool:
    types = version.types
    return isinstance(update, types.UserMessage | types.UserMessageChunk)
