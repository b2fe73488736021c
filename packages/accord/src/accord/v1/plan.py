"""Plans: the steps that the agent intends to do (v1)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v1.ids import PlanId
from accord.wire.base import Lenient, LenientList, Wire

__all__ = (
    "Plan",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
    "PlanFile",
    "PlanItems",
    "PlanMarkdown",
    "PlanRemoved",
    "PlanUpdate",
    "PlanUpdateContent",
)

PlanEntryPriority: TypeAlias = Literal["high", "medium", "low"]
PlanEntryStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class PlanEntry(Wire):
    """One step."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class Plan(Wire, tag_field="sessionUpdate", tag="plan"):
    """The complete plan of the session; it replaces the previous one."""

    entries: Lenient[LenientList[PlanEntry]]


class PlanItems(Wire, tag_field="type", tag="items"):
    """A plan as a list of steps."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId
    entries: Lenient[LenientList[PlanEntry]]


class PlanFile(Wire, tag_field="type", tag="file"):
    """A plan in a file."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId
    uri: str


class PlanMarkdown(Wire, tag_field="type", tag="markdown"):
    """A plan as Markdown."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId
    content: str


PlanUpdateContent: TypeAlias = PlanItems | PlanFile | PlanMarkdown


class PlanUpdate(Wire, tag_field="sessionUpdate", tag="plan_update"):
    """One of several plans, complete; it replaces the plan with the same id."""

    __unstable__: ClassVar[bool] = True

    plan: PlanUpdateContent


class PlanRemoved(Wire, tag_field="sessionUpdate", tag="plan_removed"):
    """One of several plans was removed."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId
