"""The state of a session: as a snapshot, and as an update (v2)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v2.error import Error
from accord.v2.ids import SessionId, TerminalId, ToolCallId
from accord.wire.base import (
    ByShape,
    KeepsMore,
    Lenient,
    Open,
    OpenEnum,
    UInt64,
    Unstable,
    Wire,
    always,
)

__all__ = (
    "BackgroundSubagent",
    "BackgroundTerminal",
    "BackgroundToolCall",
    "BackgroundWork",
    "IdleDetails",
    "IdleState",
    "IdleStateUpdate",
    "RequiresActionState",
    "RequiresActionStateUpdate",
    "RunningState",
    "RunningStateUpdate",
    "SessionState",
    "StateDetails",
    "StateUpdate",
    "StopReason",
    "UnknownState",
    "UnknownStateUpdate",
    "Usage",
)


class BackgroundTerminal(Wire, tag_field="type", tag="terminal"):
    """A command that still runs."""

    terminal_id: TerminalId


class BackgroundToolCall(Wire, tag_field="type", tag="tool_call"):
    """A tool call that still runs and has no process."""

    tool_call_id: ToolCallId


class BackgroundSubagent(Wire, tag_field="type", tag="subagent"):
    """A subagent that still works; `session_id` is the child's."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


# Work of an unknown type still counts as running.
BackgroundWork: TypeAlias = Open[
    BackgroundTerminal | BackgroundToolCall | Unstable[BackgroundSubagent]
]


class Usage(Wire):
    """The tokens that the finished work used."""

    __unstable__: ClassVar[bool] = True

    total_tokens: UInt64
    input_tokens: UInt64
    output_tokens: UInt64
    thought_tokens: Lenient[UInt64 | None] = None
    cached_read_tokens: Lenient[UInt64 | None] = None
    cached_write_tokens: Lenient[UInt64 | None] = None


StopReason: TypeAlias = OpenEnum[
    Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"]
]


class StateDetails(Wire):
    """The fields of every known state: all background work, `None` if not reported."""

    background: Lenient[list[BackgroundWork] | None] = None


class IdleDetails(StateDetails, KeepsMore):
    """How the last work ended: `error` goes with the stop reason "error"."""

    stop_reason: Lenient[StopReason | None] = None
    error: Lenient[Error | None] = None
    usage: Unstable[Lenient[Usage | None]] = None


class RunningState(StateDetails, tag_field="state", tag="running"):
    """Foreground work is running."""


class IdleState(IdleDetails, tag_field="state", tag="idle"):
    """No foreground work is left."""


class RequiresActionState(StateDetails, tag_field="state", tag="requires_action"):
    """Work waits for the user."""


class UnknownState(StateDetails, tag_field="state", tag="unknown"):
    """The state is unknown to the agent."""

    __unstable__: ClassVar[bool] = True


# A state that is not known is never idle.
SessionState: TypeAlias = Open[
    RunningState | IdleState | RequiresActionState | Unstable[UnknownState]
]


class RunningStateUpdate(StateDetails, tag_field="sessionUpdate", tag="state_update"):
    """Foreground work starts or continues."""

    __second_tag__: ClassVar[tuple[str, str]] = ("state", "running")

    state: Literal["running"] = always("running")


class IdleStateUpdate(IdleDetails, tag_field="sessionUpdate", tag="state_update"):
    """No foreground work is left."""

    __second_tag__: ClassVar[tuple[str, str]] = ("state", "idle")

    state: Literal["idle"] = always("idle")


class RequiresActionStateUpdate(StateDetails, tag_field="sessionUpdate", tag="state_update"):
    """Work waits for the user."""

    __second_tag__: ClassVar[tuple[str, str]] = ("state", "requires_action")

    state: Literal["requires_action"] = always("requires_action")


class UnknownStateUpdate(StateDetails, tag_field="sessionUpdate", tag="state_update"):
    """The state is unknown to the agent."""

    __unstable__: ClassVar[bool] = True
    __second_tag__: ClassVar[tuple[str, str]] = ("state", "unknown")

    state: Literal["unknown"] = always("unknown")


StateUpdate: TypeAlias = ByShape[
    RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | Unstable[UnknownStateUpdate]
]
