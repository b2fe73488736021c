"""The state of a session: a snapshot, sent for subagents (v1, unstable)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v1.error import Error
from accord.v1.prompt import Usage
from accord.wire.base import KeepsMore, Lenient, Open, OpenEnum, Wire

__all__ = (
    "IdleState",
    "IdleStopReason",
    "RequiresActionState",
    "RunningState",
    "SessionState",
    "UnknownState",
)

IdleStopReason: TypeAlias = OpenEnum[
    Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"]
]


class RunningState(Wire, tag_field="state", tag="running"):
    """The session is working."""

    __unstable__: ClassVar[bool] = True


class IdleState(Wire, KeepsMore, tag_field="state", tag="idle"):
    """Nothing runs; `error` explains the stop reason error."""

    __unstable__: ClassVar[bool] = True

    stop_reason: Lenient[IdleStopReason | None] = None
    error: Lenient[Error | None] = None
    usage: Lenient[Usage | None] = None


class RequiresActionState(Wire, tag_field="state", tag="requires_action"):
    """Work waits for the user."""

    __unstable__: ClassVar[bool] = True


class UnknownState(Wire, tag_field="state", tag="unknown"):
    """The state is unknown to the agent."""

    __unstable__: ClassVar[bool] = True


SessionState: TypeAlias = Open[RunningState | IdleState | RequiresActionState | UnknownState]
