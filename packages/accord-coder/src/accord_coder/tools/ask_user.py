"""The tool `ask_user`: asks the user a question with a form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from accord import NotOffered, RemoteProtocolError
from accord_coder.tool_results import Access, Outcome, ToolFailed, one_line
from accord_coder.tools.base import Tool

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.context import ToolContext


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
