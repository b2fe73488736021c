"""What is to be done: the list of steps that the user sees, and the plan that ends plan mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from accord import PermissionOption, PlanEntry
from accord_coder.permissions.gate import PermissionDenied
from accord_coder.permissions.modes import switch_mode
from accord_coder.tools.base import Tool
from accord_coder.tools.formatting import count_noun
from accord_coder.tools.result import Access, Outcome, ToolFailed

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.tools.context import ToolContext

__all__ = ("ExitPlan", "ExitPlanArguments", "Plan", "PlanArguments", "Step")


class Step(Struct, frozen=True):
    """One step."""

    content: Annotated[str, Meta(min_length=1, description="What is to be done, in a few words")]
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class PlanArguments(Struct, frozen=True):
    """All steps as they are now."""

    entries: Annotated[list[Step], Meta(description="All steps, done ones too, in their order")]


class Plan(Tool[PlanArguments]):
    """Shows the steps of a task."""

    name = "plan"
    kind = "think"
    description = (
        "Show the user the steps of a task of several steps, and how far you are: call it with all "
        "steps each time one begins or is done."
    )
    arguments_type = PlanArguments

    def title(self, args: PlanArguments, context: ToolContext) -> str:
        """Say how much is done."""
        done = sum(step.status == "completed" for step in args.entries)
        return f"Plan: {done} of {count_noun(len(args.entries), 'step', 'steps')} done"

    def access(self, args: PlanArguments, context: ToolContext) -> Access:
        """Touches nothing."""
        return Access("none")

    async def run(self, args: PlanArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Show the steps."""
        await context.session.plan(
            PlanEntry(step.content, step.status, step.priority) for step in args.entries
        )
        return Outcome(("The user sees the plan.",))


class ExitPlanArguments(Struct, frozen=True):
    """The plan."""

    plan: Annotated[str, Meta(min_length=1, description="The plan in Markdown")]


_APPROVALS = {
    "acceptEdits": PermissionOption("acceptEdits", "Yes, and accept edits", "allow_always"),
    "default": PermissionOption("default", "Yes, and ask before each edit", "allow_once"),
    "plan": PermissionOption("plan", "No, keep planning", "reject_once"),
}


class ExitPlan(Tool[ExitPlanArguments]):
    """Has the user approve a plan."""

    name = "exit_plan"
    kind = "switch_mode"
    description = (
        "In plan mode, once you know what to do: show the plan to the user, who approves it, which "
        "ends plan mode, or wants to go on planning."
    )
    arguments_type = ExitPlanArguments

    def title(self, args: ExitPlanArguments, context: ToolContext) -> str:
        """Ask."""
        return "Ready to carry out this plan?"

    def access(self, args: ExitPlanArguments, context: ToolContext) -> Access:
        """Touches nothing; the user is asked all the same."""
        return Access("none")

    async def preview(
        self, args: ExitPlanArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Show the plan."""
        if context.mode != "plan":
            raise ToolFailed(f"This is not plan mode but the mode {context.mode}: go on.")
        await call.add_content(args.plan)

    async def run(
        self, args: ExitPlanArguments, call: ToolCallHandle, context: ToolContext
    ) -> Outcome:
        """Ask, and switch the mode as the user wants."""
        chosen = await call.request_choice(_APPROVALS.values())
        if chosen is None or not chosen.allows:
            raise PermissionDenied(
                "The user does not approve the plan: this is still plan mode. Ask what to change, "
                "or wait for what the user says."
            )
        await switch_mode(context.session, chosen.id)
        how = (
            "edits need no permission now" if chosen.id == "acceptEdits" else "edits are asked for"
        )
        return Outcome((f"The user approves the plan; {how}. Carry it out.",), {"mode": chosen.id})
