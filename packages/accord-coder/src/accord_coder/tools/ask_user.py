"""The tools `ask_user`, `plan` and `exit_plan`: questions to the user, and plans to approve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from accord import NotOffered, PermissionOption, PlanEntry, RemoteProtocolError
from accord_coder.permissions.decision import PermissionDenied, switch_mode
from accord_coder.tool_results import Access, Outcome, ToolFailed, count_noun, one_line
from accord_coder.tools import Tool

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.decision import ToolContext


class AskArguments(Struct, frozen=True):
    """The arguments of `ask_user`."""

    question: Annotated[str, Meta(min_length=1, description="The question, whole")]
    choices: Annotated[
        list[str], Meta(description="The answers to choose from; none means free text")
    ] = []
    multiple: Annotated[bool, Meta(description="Whether several choices can be selected")] = False


class Ask(Tool[AskArguments]):
    """Asks the user a question."""

    name = "ask"
    kind = "other"
    description = (
        "Ask the user for information that you need and cannot find out yourself. Never "
        "ask for passwords or keys."
    )
    arguments_type = AskArguments

    def title(self, args: AskArguments, context: ToolContext) -> str:
        """Show the question."""
        return one_line(args.question)

    def access(self, args: AskArguments, context: ToolContext) -> Access:
        """Return no access."""
        return Access("none")

    async def run(self, args: AskArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Return the answer."""
        try:
            filled = await context.session.elicit_form(_form(args), args.question)
        except NotOffered:
            raise ToolFailed(
                "The user's editor does not support forms: ask in the text of your answer, and end"
                " your turn."
            ) from None
        except RemoteProtocolError as exc:
            raise ToolFailed(f"The answer is not valid: {exc}") from exc
        if filled is None:
            raise ToolFailed(
                "The user did not answer. Continue with what needs no answer, or stop."
            )
        answer: str | list[str] = filled.answer
        text = answer if isinstance(answer, str) else "\n".join(answer)
        await call.add_content(text or "(nothing)")
        return Outcome((text or "[nothing was chosen]",))


def _form(args: AskArguments) -> type[Any]:
    """Return the form with its only field `answer`."""
    choices = tuple(dict.fromkeys(choice for choice in args.choices if choice))
    field: Any = Literal[choices] if choices else str
    if choices and args.multiple:
        field = list[field]
    return msgspec.defstruct("Answer", [("answer", field)], module=__name__)


class Step(Struct, frozen=True):
    """One step."""

    content: Annotated[str, Meta(min_length=1, description="The step in a few words")]
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class PlanArguments(Struct, frozen=True):
    """The arguments of `plan`."""

    entries: Annotated[list[Step], Meta(description="All steps in order, completed ones included")]


class Plan(Tool[PlanArguments]):
    """Shows the steps of a task."""

    name = "plan"
    kind = "think"
    description = (
        "Show the user the steps of a task and your progress: call it with all "
        "steps each time one begins or is completed."
    )
    arguments_type = PlanArguments

    def title(self, args: PlanArguments, context: ToolContext) -> str:
        """Return a title with the progress."""
        done = sum(step.status == "completed" for step in args.entries)
        return f"Plan: {done} of {count_noun(len(args.entries), 'step', 'steps')} done"

    def access(self, args: PlanArguments, context: ToolContext) -> Access:
        """Return no access."""
        return Access("none")

    async def run(self, args: PlanArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Show the steps."""
        await context.session.plan(
            PlanEntry(step.content, step.status, step.priority) for step in args.entries
        )
        return Outcome(("The user sees the plan.",))


class ExitPlanArguments(Struct, frozen=True):
    """The arguments of `exit_plan`."""

    plan: Annotated[str, Meta(min_length=1, description="The plan in Markdown")]


_APPROVALS = {
    "acceptEdits": PermissionOption("acceptEdits", "Yes, and accept edits", "allow_always"),
    "default": PermissionOption("default", "Yes, and ask before each edit", "allow_once"),
    "plan": PermissionOption("plan", "No, keep planning", "reject_once"),
}


class ExitPlan(Tool[ExitPlanArguments]):
    """Asks the user to approve a plan."""

    name = "exit_plan"
    kind = "switch_mode"
    description = (
        "In plan mode, once you know what to do: show the plan to the user, who approves it, which "
        "ends plan mode, or asks you to continue planning."
    )
    arguments_type = ExitPlanArguments

    def title(self, args: ExitPlanArguments, context: ToolContext) -> str:
        """Return the question."""
        return "Ready to carry out this plan?"

    def access(self, args: ExitPlanArguments, context: ToolContext) -> Access:
        """Return no access; `run` asks the user."""
        return Access("none")

    async def preview(
        self, args: ExitPlanArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Show the plan."""
        if context.mode != "plan":
            raise ToolFailed(f"The mode is {context.mode}, not plan: continue without approval.")
        await call.add_content(args.plan)

    async def run(
        self, args: ExitPlanArguments, call: ToolCallHandle, context: ToolContext
    ) -> Outcome:
        """Ask the user, and set the mode of the answer."""
        chosen = await call.request_choice(_APPROVALS.values())
        if chosen is None or not chosen.allows:
            raise PermissionDenied(
                "The user did not approve the plan, and plan mode continues. Ask what to change, "
                "or wait for the user."
            )
        await switch_mode(context.session, chosen.id)
        how = (
            "edits need no permission now"
            if chosen.id == "acceptEdits"
            else "edits require permission"
        )
        return Outcome((f"The user approved the plan; {how}. Carry it out.",), {"mode": chosen.id})
