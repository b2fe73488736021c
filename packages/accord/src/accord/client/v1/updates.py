"""Reads the updates of version 1 as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from msgspec.structs import replace

from accord import v1
from accord.client.event_stream import UpdateReader
from accord.client.events import (
    CommandsChanged,
    Event,
    ModeChanged,
    OptionsChanged,
    Plan,
    StateChanged,
    ToolCall,
    UnknownUpdate,
)
from accord.client.shared_updates import (
    locations_from_wire,
    option_from_wire,
    plan_entries,
    shared_readers,
    update_reader,
)
from accord.client.shared_updates import state_from_wire as read_state
from accord.client.transcript import Transcript
from accord.rules.quirks import tolerates
from accord.types.convert_v1 import content_from_wire, tool_content_from_wire
from accord.types.session import AvailableCommand, OptionChoice, SelectOption, SessionOption
from accord.wire.codec import to_builtins

_STATES: dict[type, str] = {
    v1.IdleState: "idle",
    v1.RunningState: "running",
    v1.RequiresActionState: "requires_action",
    v1.UnknownState: "unknown",
}


def state_from_wire(state: v1.SessionState) -> StateChanged:
    """Return the state of a session."""
    return read_state(_STATES, state)


@tolerates("unannounced-tool-call")
def apply_tool_call(details: v1.ToolCallDetails, transcript: Transcript) -> ToolCall | None:
    """Return a tool call with an update applied: None keeps the value of a field (A-24)."""
    changes: dict[str, Any] = {}
    for name in ("title", "name", "kind", "status", "raw_input", "raw_output", "meta"):
        value = getattr(details, name)
        if value is not None:
            changes[name] = value
    if details.content is not None:
        changes["content"] = tuple(map(tool_content_from_wire, details.content))
    if details.locations is not None:
        changes["locations"] = locations_from_wire(details.locations)
    known = transcript.tool_call(details.tool_call_id)
    if known is None:
        # Some agents skip `tool_call` and announce it here.
        return ToolCall(id=details.tool_call_id, changed=tuple(changes), **changes)
    changed = tuple(name for name, value in changes.items() if getattr(known, name) != value)
    if known.unfinished:
        changed = (*changed, "unfinished")
    return replace(known, changed=changed, unfinished=False, **changes) if changed else None


def _tool_call(call: v1.ToolCall, _transcript: Transcript) -> Event:
    return ToolCall(
        id=call.tool_call_id,
        title=call.title,
        kind=call.kind,
        status=call.status,
        name=call.name,
        content=tuple(map(tool_content_from_wire, call.content)),
        locations=locations_from_wire(call.locations),
        raw_input=call.raw_input,
        raw_output=call.raw_output,
        meta=call.meta,
        changed=("title", "kind", "status", "name", "content", "locations", "raw_input"),
    )


def _plan(update: v1.Plan, _transcript: Transcript) -> Event:
    return Plan(plan_entries(update.entries))


def _commands(update: v1.AvailableCommandsUpdate, _transcript: Transcript) -> Event:
    return CommandsChanged(
        tuple(
            AvailableCommand(c.name, c.description, None if c.input is None else c.input.hint)
            for c in update.available_commands
        )
    )


def _mode(update: v1.CurrentModeUpdate, transcript: Transcript) -> Event | None:
    mode = update.current_mode_id
    return None if transcript.mode == mode else ModeChanged(mode)


def _options(update: v1.ConfigOptionUpdate, transcript: Transcript) -> Event:
    options = options_from_wire(update.config_options)
    return OptionsChanged(with_modes(options, transcript.options))


def options_from_wire(options: Iterable[v1.SessionConfigOption]) -> tuple[SessionOption, ...]:
    """Return the config options of a session."""
    known = (option_from_wire(v1, option, option.id) for option in options)
    return _mode_marked(tuple(option for option in known if option is not None))


@tolerates("mode-without-category")
def _mode_marked(options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
    """Give an option `mode` without a category the category `mode`, if no option has it."""
    if any(option.category == "mode" for option in options):
        return options
    return tuple(
        replace(option, category="mode")
        if isinstance(option, SelectOption) and option.id == "mode" and option.category is None
        else option
        for option in options
    )


def with_modes(
    options: tuple[SessionOption, ...], earlier: Iterable[SessionOption]
) -> tuple[SessionOption, ...]:
    """Return config options that the agent sent with the modes among the `earlier` options.

    A mode option replaces the modes (R-MODE-04). The modes have the id `mode`, or another one if a
    config option of another category has it.
    """
    modes = next((o for o in earlier if isinstance(o, SelectOption) and o.from_modes), None)
    if modes is None or any(option.category == "mode" for option in options):
        return options
    ids = {option.id for option in options}
    free = next(name for name in _mode_ids() if name not in ids)
    return (modes if modes.id == free else replace(modes, id=free), *options)


def _mode_ids() -> Iterator[str]:
    yield "mode"
    yield "session_mode"
    yield from (f"session_mode_{number}" for number in count(2))


def option_from_modes(modes: v1.SessionModeState) -> SelectOption:
    """Return the modes of an agent without a mode option as an option."""
    choices = (OptionChoice(mode.id, mode.name, mode.description) for mode in modes.available_modes)
    return SelectOption(
        id="mode",
        name="Mode",
        value=modes.current_mode_id,
        choices=tuple(choices),
        category="mode",
        from_modes=True,
    )


def _unknown(update: Any) -> Event:
    return UnknownUpdate(to_builtins(update))


READERS: dict[type, UpdateReader] = {
    **shared_readers(v1, content_from_wire, state_from_wire),
    v1.ToolCall: _tool_call,
    v1.ToolCallUpdate: apply_tool_call,
    v1.Plan: _plan,
    v1.AvailableCommandsUpdate: _commands,
    v1.CurrentModeUpdate: _mode,
    v1.ConfigOptionUpdate: _options,
}
events_from_update: UpdateReader = update_reader(v1, READERS, _unknown)
