"""The demonstration model: runs the commands of a prompt with the tools of the agent.

It needs no account and no network and answers the same prompt in the same way every time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from accord import ContentBlock
from accord_coder.instructions import says_plan_mode
from accord_coder.messages import Message, Prompt, Results, ToolResult, ToolUse
from accord_coder.models.base import Finished, Model, ModelError, Piece, Request, Text
from accord_coder.models.demo_commands import (
    DemoStep,
    InvalidPrompt,
    Use,
    Work,
    help_text,
    parse_prompt,
)


class DemoModel(Model):
    """Runs commands. Its memory is the conversation: each answer starts the prompt again.

    The tools used so far are not used twice, their results come from the conversation. So a turn
    continues in the same place after the agent was restarted.
    """

    is_language_model = False
    name = "demo"
    context_size = 1_000_000
    can_summarise = False

    async def answer(self, request: Request) -> AsyncIterator[Piece]:
        """Continue the commands of the last prompt after the last result."""
        content, results = _last_prompt(request.messages)
        # Approval ends plan mode, but the replay must take the same steps.
        planning = results[0].name == "exit_plan" if results else False
        planning = planning or says_plan_mode(request.instructions)
        work = _work(content, planning=planning)
        given = iter(results)
        left = len(results)
        said = False
        step = next(work, None)
        while step is not None:
            match step:
                case str(text):
                    if not left:
                        yield Text(f"\n\n{text}" if said else text)
                        said = True
                    step = next(work, None)
                case Use(name, arguments):
                    result = next(given, None)
                    if result is None:
                        written = msgspec.json.encode(arguments).decode()
                        yield ToolUse(f"use-{len(request.messages)}", name, written)
                        yield Finished(reason="tools")
                        return
                    left -= 1
                    if result.name != name:
                        yield Text("The conversation does not match the prompt: send it again.")
                        break
                    step = _send(work, result)
        yield Finished(reason="end")


def _send(work: Work, result: ToolResult) -> str | Use | None:
    try:
        return work.send(result)
    except StopIteration:
        return None


def _last_prompt(messages: Sequence[Message]) -> tuple[tuple[ContentBlock, ...], list[ToolResult]]:
    """Return the last prompt, and the results of the tools that were used for it."""
    content: tuple[ContentBlock, ...] = ()
    results: list[ToolResult] = []
    for message in messages:
        match message:
            case Prompt(content):
                results.clear()
            case Results(new):
                results += new
            case _:
                pass
    return content, results


def _work(content: Sequence[ContentBlock], *, planning: bool) -> Work:
    """Run the commands of a prompt, several as a plan. None is run if one is not valid.

    An invalid prompt ends the turn with an error, so that a program can detect it. The stop reason
    is not `refusal`, because editors remove a refused prompt from the conversation, together with
    the answer that explains the commands.
    """
    try:
        steps = parse_prompt(content)
    except InvalidPrompt as error:
        yield help_text()
        raise ModelError(str(error)) from error
    if planning and any(step.command.changes for step in steps):
        plan = "\n".join(f"{number}. {step.text}" for number, step in enumerate(steps, 1))
        approval = yield Use("exit_plan", {"plan": plan})
        if approval.failed:
            yield approval.text
            return False
    if len(steps) == 1:
        return (yield from steps[0].run())
    for at, step in enumerate(steps):
        yield _plan(steps, at, "in_progress")
        if not (yield from step.run()):
            yield _plan(steps, at, "pending")
            left = "; ".join(other.text for other in steps[at + 1 :])
            yield f"Stopped at step {at + 1} of {len(steps)}." + (
                f" Not run: {left}." if left else ""
            )
            return False
    yield _plan(steps, len(steps), "completed")
    return True


def _plan(steps: Sequence[DemoStep], now: int, status: str) -> Use:
    """Show the plan; `status` is that of the step `now`."""
    entries = [
        {
            "content": step.text,
            "status": "completed" if at < now else status if at == now else "pending",
        }
        for at, step in enumerate(steps)
    ]
    return Use("plan", {"entries": entries})
