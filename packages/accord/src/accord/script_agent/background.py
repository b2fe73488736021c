"""Commands for background work, subagents, and output outside the conversation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from accord import RequestError, TokenUsage, Turn
from accord.agent import ToolCallHandle, WorkCancelled
from accord.script_agent.command import ScriptCommand, UsageError


def _seconds(rest: str) -> float | None:
    try:
        return None if rest == "forever" else float(rest or 1)
    except ValueError:
        raise UsageError(f"Expected seconds or `forever`, got `{rest}`.") from None


async def _sleep(seconds: float | None) -> None:
    if seconds is None:
        await asyncio.Event().wait()
    else:
        await asyncio.sleep(seconds)


async def _background(turn: Turn, rest: str) -> None:
    seconds = _seconds(rest)

    async def work(call: ToolCallHandle) -> None:
        await call.append_text("Work continues.\n")
        await _sleep(seconds)
        await call.append_text("Work is done.\n")

    await turn.run_in_background("Work in the background", work, raw_input={"seconds": seconds})
    await turn.say("Work continues in the background.")


async def _alone(turn: Turn, rest: str) -> None:
    seconds = _seconds(rest)
    try:
        async with turn.tool("A call to be cancelled", cancellable=True) as call:
            await call.start()
            await _sleep(seconds)
    except WorkCancelled:
        await turn.say("The call was cancelled; the turn continues.")
    else:
        await turn.say("The call was not cancelled.")


async def _pause(turn: Turn, _: str) -> None:
    async with turn.tool("A call that pauses") as call:
        await call.pause()
        await call.add_content("It was resumed.")
    await turn.say("I have paused.")


async def _notice(turn: Turn, rest: str) -> None:
    severity = rest or "info"
    if severity not in ("info", "warning", "error"):
        raise UsageError(f"Expected `info`, `warning` or `error`, got `{rest}`.")
    await turn.show_notice(
        "A notice", severity=severity, description="It is not part of the conversation."
    )
    await turn.say("The notice was sent.")


async def _compact(turn: Turn, rest: str) -> None:
    if rest not in ("", "fail"):
        raise UsageError(f"Expected `fail` or nothing, got `{rest}`.")
    async with turn.compaction() as compaction:
        if rest:
            await compaction.fail("It failed on request.")
        else:
            await compaction.summary("The conversation ")
            await compaction.summary("so far.")
    await turn.say("The context is unchanged." if rest else "The context is shorter.")


async def _document(turn: Turn, _: str) -> None:
    plan = await turn.plan_markdown("# A plan\n\n- Look\n- Act\n", plan_id="text")
    await turn.plan_file("file:///plan.md", plan_id="file")
    await plan.remove()
    await turn.say("One plan is left.")


async def _subagent(turn: Turn, rest: str) -> None:
    try:
        async with turn.subagent(
            "A subagent", description="It says what it is told", cancellable=True
        ) as child:
            await turn.send_session_message(child, rest or "Say something.")
            async with child.tool("A call of the subagent", kind="think") as call:
                await call.add_content("Some content.")
            if rest == "forever":
                await asyncio.Event().wait()
            await child.say(rest or "Something.")
            await child.send_session_message(turn.session, "Done.")
            child.token_usage = TokenUsage(total=3, input=2, output=1)
    except WorkCancelled:
        await turn.say("The subagent was cancelled; the turn continues.")
    else:
        await turn.say("The subagent is done.")


async def _tokens(turn: Turn, _: str) -> None:
    turn.token_usage = TokenUsage(
        total=30, input=20, output=10, thought=5, cached_read=4, cached_write=2
    )
    await turn.say("This took 30 tokens.")


async def _system(turn: Turn, _: str) -> None:
    prompt = turn.session.system_prompt
    await turn.say("No system prompt." if prompt is None else f"{prompt.mode}: {prompt.text}")


async def _extension(turn: Turn, rest: str) -> None:
    method, _, text = rest.partition(" ")
    if not method.startswith("_"):
        raise UsageError("Expected a method that begins with an underscore.")
    try:
        params = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        raise UsageError("Expected a JSON object.") from None
    await turn.notify_extension(f"{method}/notified", params)
    try:
        result = await turn.call_extension(method, params)
    except RequestError as error:
        await turn.say(f"The client responded with error {error.code}.")
    else:
        await turn.say(f"The client responded with `{json.dumps(result)}`.")


BACKGROUND = (
    ScriptCommand(
        "background",
        "[SECONDS|forever]",
        "Start work that outlives the turn",
        _background,
        "A tool call that keeps running after the turn, for this time (1); `Work continues "
        "in the background.` In version 2, the session state lists it, and the client can "
        "cancel it; in version 1, cancelling the session ends it.",
    ),
    ScriptCommand(
        "alone",
        "[SECONDS|forever]",
        "Wait in a tool call that can be cancelled individually",
        _alone,
        "A tool call that is in progress for this time (1) and that a version 2 client can "
        "cancel individually; `The call was not cancelled.` or `The call was cancelled; the "
        "turn continues.`",
    ),
    ScriptCommand(
        "pause",
        "",
        "Make a tool call that is paused and resumed",
        _pause,
        "A tool call that is paused (in version 1: in progress) and resumed; `I have paused.`",
    ),
    ScriptCommand(
        "notice",
        "[SEVERITY]",
        "Show a notice: `info`, `warning` or `error`",
        _notice,
        "A notice of severity `info`, `warning` or `error` (for a version 1 client that does "
        "not show notices: a message); `The notice was sent.`",
    ),
    ScriptCommand(
        "compact",
        "[fail]",
        "Show a compaction of the context",
        _compact,
        "A compaction with a summary, or a failed one, if the client supports compactions; "
        "`The context is shorter.` or `The context is unchanged.`",
    ),
    ScriptCommand(
        "document",
        "",
        "Show a Markdown plan and a plan file, and remove one",
        _document,
        "A Markdown plan and a plan file; then the first one is removed (for clients that "
        "only show lists: as lists of entries); `One plan is left.`",
    ),
    ScriptCommand(
        "subagent",
        "[TEXT|forever]",
        "Start a subagent that says TEXT, or waits for a cancel",
        _subagent,
        "A subagent in its own session: it receives TEXT, makes a tool call, says TEXT (or "
        "waits to be cancelled) and replies; for clients without subagents, a tool call. "
        "`The subagent is done.` or `The subagent was cancelled; the turn continues.`",
    ),
    ScriptCommand(
        "tokens",
        "",
        "Report token usage at the end of the turn",
        _tokens,
        "`This took 30 tokens.`, and the same number at the end of the turn.",
    ),
    ScriptCommand(
        "system",
        "",
        "Show the system prompt that the client gave",
        _system,
        "The mode and the text of the system prompt that the client gave for the session, or "
        "`No system prompt.`",
    ),
    ScriptCommand(
        "extension",
        "METHOD [JSON]",
        "Call an extension method of the client",
        _extension,
        "The notification `METHOD/notified`, then the request METHOD, with the object and "
        'the session\'s id as params; ``The client responded with `{"a": 1}`.`` or the code of its '
        "error.",
    ),
)
