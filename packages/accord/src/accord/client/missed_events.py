"""Compares what a client has of a session with the agent's replay, to find what it missed.

A replay writes the history in another way than the live updates: texts are merged, tool calls have
their last state, thoughts may be left out, and message ids may be new or missing. So the two
transcripts are aligned in order: entities by their ids, other messages by their content.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from accord.client.events import (
    AgentTerminal,
    CommandsChanged,
    Compaction,
    Event,
    MessageReplaced,
    ModeChanged,
    OptionsChanged,
    SessionMessage,
    TerminalOutputChunk,
    TitleChanged,
    ToolCall,
    UpdatedAtChanged,
    UsageChanged,
)
from accord.client.message import Message, continuation, message_events
from accord.client.transcript import Item, Transcript
from accord.types.content import ContentBlock, text_of

_FINAL = frozenset({"completed", "failed", "cancelled"})
_NEAR = 32  # messages that a replayed one is compared with
_OTHER_FIELDS = frozenset({"id", "meta", "changed"})


class Missed(Struct, frozen=True):
    """What a client missed, and whether the replay contains its last prompt (None: unknown)."""

    events: tuple[Event, ...]
    has_prompt: bool | None


def missed_events(held: Transcript, replayed: Transcript, turn_start: int) -> Missed:
    """Return the events that turn what the client holds into what the agent has replayed.

    The events of the conversation follow what both sides have. What the replay lacks stays: an
    agent may store less than it has sent. `turn_start` is the index of the first item of the last
    turn in `held`.
    """
    aligned = _Alignment(held.items, replayed.items)
    for item in replayed.items:
        aligned.add(item)
    events = [*aligned.missed(), *_settings(held, replayed)]
    return Missed(tuple(events), aligned.has_prompt(turn_start) if replayed.items else None)


class _Alignment:
    """Finds each replayed item among the held ones, in order."""

    def __init__(self, held: Sequence[Item], replayed: Sequence[Item]) -> None:
        self._held = held
        self._places = {key: place for place, item in enumerate(held) if (key := _key(item))}
        self._replayed_keys = {key for item in replayed if (key := _key(item))}
        self._next = 0  # the first held item that a message without an id can be
        # The held messages that only their content can identify, by role and by their first text.
        self._candidates: dict[str, list[int]] = {"agent": [], "thought": [], "user": []}
        self._by_text: dict[tuple[str, str], list[int]] = {}
        self._first_texts: dict[int, str] = {}
        for place, item in enumerate(held):
            if not isinstance(item, Message) or _key(item) in self._replayed_keys:
                continue
            if content := item.content:
                text = self._first_texts[place] = _first_text(content)
                self._candidates[item.role].append(place)
                self._by_text.setdefault((item.role, text), []).append(place)
        self._matched: set[int] = set()
        # The rest of a held message: the replay can divide one message into several.
        self._rest: tuple[Message, tuple[ContentBlock, ...]] | None = None
        self._changes: list[Event] = []  # of held items with ids, wherever they are
        self._tail: list[Event] = []  # after the last held item
        self._new_prompt = False

    def missed(self) -> list[Event]:
        """Return what is not held.

        An unknown item before a known one was not missed, because updates arrive in order: the
        agent only writes its history in another way.
        """
        return [*self._changes, *self._tail]

    def has_prompt(self, turn_start: int) -> bool:
        """Return whether the replay contains the prompt of the turn that began at this place."""
        return self._new_prompt or any(
            place >= turn_start and _is_prompt(self._held[place]) for place in self._matched
        )

    def add(self, item: Item) -> None:
        """Find the next replayed item."""
        place = self._places.get(_key(item) or ("", ""))
        if place is not None:
            self._found(place)
            known = self._held[place]
            if isinstance(known, Message):
                assert isinstance(item, Message)
                self._changes += _message_changes(known, item)
            elif (changed := _changed(known, item)) is not None:
                self._changes.append(changed)
        elif not isinstance(item, Message):
            self._rest = None
            self._tail.append(_new(item))
        elif not self._find_by_content(item):
            self._rest = None
            self._new_prompt = self._new_prompt or item.role == "user"
            self._tail += message_events(item)

    def _found(self, place: int) -> None:
        self._matched.add(place)
        self._next = max(self._next, place + 1)
        self._rest = None
        self._tail.clear()
        self._new_prompt = False

    def _find_by_content(self, item: Message) -> bool:
        content = item.content
        if not content:
            return True
        if self._rest is not None and self._rest[0].role == item.role:
            message, rest = self._rest
            if (more := continuation(content, rest)) is not None:
                self._rest = (message, more) if more else None
                return True
            if (more := continuation(rest, content)) is not None:
                self._rest = None
                self._tail = list(_appended(message, more))
                return True
        text = _first_text(content)
        for place in self._places_to_compare(item.role, text):
            known = self._first_texts[place]
            if not (text.startswith(known) or known.startswith(text)):
                continue
            message = self._message(place)
            if (more := continuation(message.content, content)) is not None:
                self._found(place)
                self._match_rest(message, more)
                return True
            if (more := continuation(content, message.content)) is not None:
                self._found(place)
                self._rest = (message, more)
                return True
        return item.role == "user" and self._find_rewritten_prompt(item)

    def _find_rewritten_prompt(self, item: Message) -> bool:
        """Find a prompt that the agent has stored with more or less around it."""
        prompts = self._candidates["user"]
        start = bisect_left(prompts, self._next)
        if start == len(prompts):
            return False
        ours = text_of(self._message(prompts[start]).content).strip()
        theirs = text_of(item.content).strip()
        if not ours or not theirs or (ours not in theirs and theirs not in ours):
            return False
        self._found(prompts[start])
        return True

    def _places_to_compare(self, role: str, text: str) -> Iterator[int]:
        """Return where a message can be: near, with the same text, or at the end.

        Comparing it with all messages would take quadratic time.
        """
        places = self._candidates[role]
        start = bisect_left(places, self._next)
        yield from places[start : start + _NEAR]
        same = self._by_text.get((role, text), [])
        yield from same[bisect_left(same, self._next) :][:1]
        yield from places[max(start + _NEAR, len(places) - _NEAR) :]

    def _message(self, place: int) -> Message:
        item = self._held[place]
        assert isinstance(item, Message)
        return item

    def _match_rest(self, message: Message, rest: tuple[ContentBlock, ...]) -> None:
        """Find the rest of a replayed message in the held ones: the replay can merge several."""
        while rest and (place := self._following(message.role)) is not None:
            following = self._message(place)
            if (more := continuation(following.content, rest)) is not None:
                self._found(place)
                message, rest = following, more
            elif (more := continuation(rest, following.content)) is not None:
                self._found(place)
                self._rest = (following, more)
                return
            else:
                break
        self._tail = list(_appended(message, rest))

    def _following(self, role: str) -> int | None:
        """Return the place of the next message of a role, before any item that was replayed."""
        places = self._candidates[role]
        start = bisect_left(places, self._next)
        if start == len(places) or places[start] > self._next + _NEAR:
            return None
        between = range(self._next, places[start])
        if any(_key(self._held[place]) in self._replayed_keys for place in between):
            return None
        return places[start]


def _key(item: Item) -> tuple[str, str] | None:
    if isinstance(item, Message):
        return None if item.id is None else (item.role, item.id)
    return type(item).__name__, item.id


def _is_prompt(item: Item) -> bool:
    return isinstance(item, Message) and item.role == "user"


def _first_text(content: tuple[ContentBlock, ...]) -> str:
    return content[0] if isinstance(content[0], str) else ""


def _appended(message: Message, content: Sequence[ContentBlock]) -> Iterator[Event]:
    """Return the events that append content to a message."""
    if content:
        more = Message(message.role, message.id)
        more.replace(tuple(content))
        yield from message_events(more)


def _message_changes(held: Message, replayed: Message) -> Iterator[Event]:
    """Return the events that give a message the replayed content, unless more of it is held."""
    content = replayed.content
    if (more := continuation(held.content, content)) is not None:
        yield from _appended(held, more)
    elif continuation(content, held.content) is None:
        assert held.id is not None, "found by its id"
        yield MessageReplaced(held.role, held.id, content)


def _new(item: ToolCall | Compaction | SessionMessage) -> Event:
    return (_changed(ToolCall(id=item.id), item) or item) if isinstance(item, ToolCall) else item


def _changed(held: Any, replayed: Any) -> Any:
    """Return the replayed state of an entity, or None if it contains nothing new.

    A replay can omit details, and a final status is kept.
    """
    changes: dict[str, Any] = {}
    for name, default in _state_fields(replayed.__class__):
        value = getattr(replayed, name)
        if value not in (getattr(held, name), default):
            changes[name] = value
    if getattr(held, "status", None) in _FINAL and changes.get("status") not in _FINAL:
        changes.pop("status", None)
    if not changes:
        return None
    if isinstance(held, ToolCall):
        changed = (*changes, "unfinished") if held.unfinished else tuple(changes)
        changes["unfinished"] = False  # what the agent reports counts again
        return replace(held, **changes, changed=changed)
    return replace(held, **changes)


@cache
def _state_fields(entity: type[Any]) -> tuple[tuple[str, Any], ...]:
    """Return the names and defaults of the fields that a replay can change."""
    every = fields(entity)
    return tuple((field.name, field.default) for field in every if field.name not in _OTHER_FIELDS)


def _settings(held: Transcript, replayed: Transcript) -> Iterator[Event]:
    """Return the changes of everything but the conversation."""
    for plan_id, plan in replayed.plans.items():
        if held.plans.get(plan_id) != plan:
            yield plan
    if replayed.options and replayed.options != held.options:
        yield OptionsChanged(replayed.options)
    if replayed.mode is not None and not replayed.options and replayed.mode != held.mode:
        yield ModeChanged(replayed.mode)
    if replayed.commands and replayed.commands != held.commands:
        yield CommandsChanged(replayed.commands)
    for terminal_id, shell in replayed.terminals.items():
        known = held.terminals.get(terminal_id)
        if shell.terminal != (AgentTerminal(id=terminal_id) if known is None else known.terminal):
            yield shell.terminal
        output = b"" if known is None else bytes(known.output)
        if shell.output.startswith(output):
            if more := bytes(shell.output[len(output) :]):
                yield TerminalOutputChunk(terminal_id, more)
        elif not output.endswith(bytes(shell.output)):  # a replay can have only the end
            yield TerminalOutputChunk(terminal_id, bytes(shell.output), replaces=True)
    if replayed.usage is not None and replayed.usage != held.usage:
        yield UsageChanged(replayed.usage)
    if replayed.title is not None and replayed.title != held.title:
        yield TitleChanged(replayed.title)
    if replayed.updated_at is not None and replayed.updated_at != held.updated_at:
        yield UpdatedAtChanged(replayed.updated_at)
    for session_id, subagent in replayed.subagents.items():
        if held.subagents.get(session_id) != subagent:
            yield subagent
