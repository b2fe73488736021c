"""Plans: the tasks that the agent intends to do, with their status (v2)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from accord.v2.ids import PlanId, Uri
from accord.wire.base import LenientList, Open, OpenEnum, Other, Unstable, Wire

__all__ = (
    "PlanBase",
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

PlanEntryPriority: TypeAlias = OpenEnum[Literal["high", "medium", "low"]]
PlanEntryStatus: TypeAlias = OpenEnum[Literal["pending", "in_progress", "completed", "cancelled"]]


class PlanEntry(Wire):
    """One task of a plan."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class PlanBase(Wire):
    """The fields of plans of every type."""

    plan_id: PlanId


class PlanItems(PlanBase, tag_field="type", tag="items"):
    """A plan as a list of tasks, complete each time."""

    entries: LenientList[PlanEntry]


class PlanFile(PlanBase, tag_field="type", tag="file"):
    """A plan that is in a file."""

    __unstable__: ClassVar[bool] = True

    uri: Uri


class PlanMarkdown(PlanBase, tag_field="type", tag="markdown"):
    """A plan as Markdown."""

    __unstable__: ClassVar[bool] = True

    content: str


PlanUpdateContent: TypeAlias = Annotated[
    Open[PlanItems | Unstable[PlanFile] | Unstable[PlanMarkdown]], Other(PlanBase)
]


class PlanUpdate(Wire, tag_field="sessionUpdate", tag="plan_update"):
    """A complete plan; it replaces the plan with this id."""

    plan: PlanUpdateContent


class PlanRemoved(Wire, tag_field="sessionUpdate", tag="plan_removed"):
    """A plan was removed."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId
