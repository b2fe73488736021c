"""Acts that go on beside turns, or show what is no part of the conversation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from accord import RequestError, TokenUsage, Turn
from accord.agent import ToolCallHandle, WorkCancelled
from accord.script_agent.command import ScriptCommand, UsageError

__all__ = ("COMMANDS",)


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
        await call.append_text("It goes on.\n")
        await _sleep(seconds)
        await call.append_text("It is done.\n")

    await turn.run_in_background("Work in the background", work, raw_input={"seconds": seconds})
    await turn.say("It goes on in the background.")


async def _alone(turn: Turn, rest: str) -> None:
    seconds = _seconds(rest)
    try:
        async with turn.tool("A call to be cancelled", cancellable=True) as call:
            await call.start()
            await _sleep(seconds)
    except WorkCancelled:
        await turn.say("The call was cancelled; I go on.")
    else:
        await turn.say("Nobody cancelled the call.")


async def _pause(turn: Turn, _: str) -> None:
    async with turn.tool("A call that pauses") as call:
        await call.pause()
        await call.add_content("It went on.")
    await turn.say("I have paused.")


async def _notice(turn: Turn, rest: str) -> None:
    severity = rest or "info"
    if severity not in ("info", "warning", "error"):
        raise UsageError(f"Expected `info`, `warning` or `error`, got `{rest}`.")
    await turn.show_notice("A notice", severity=severity, description="It is no part of this.")
    await turn.say("I have given notice.")


async def _compact(turn: Turn, rest: str) -> None:
    if rest not in ("", "fail"):
        raise UsageError(f"Expected `fail` or nothing, got `{rest}`.")
    async with turn.compaction() as compaction:
        if rest:
            await compaction.fail("It failed, as it was told to.")
        else:
            await compaction.summary("What was said ")
            await compaction.summary("so far.")
    await turn.say("The context is what it was." if rest else "The context is shorter.")


async def _document(turn: Turn, _: str) -> None:
    plan = await turn.plan_markdown("# A plan\n\n- Look\n- Act\n", plan_id="text")
    await turn.plan_file("file:///plan.md", plan_id="file")
    await plan.remove()
    await turn.say("One plan is left.")


async def _subagent(turn: Turn, rest: str) -> None:
    try:
        async with turn.subagent(
            "A subagent", description="It is told what to say", cancellable=True
        ) as child:
            await turn.send_session_message(child, rest or "Say something.")
            async with child.tool("A call of the subagent", kind="think") as call:
                await call.add_content("What it shows.")
            if rest == "forever":
                await asyncio.Event().wait()
            await child.say(rest or "Something.")
            await child.send_session_message(turn.session, "Done.")
            child.token_usage = TokenUsage(total=3, input=2, output=1)
    except WorkCancelled:
        await turn.say("The subagent was cancelled; I go on.")
    else:
        await turn.say("The subagent is done.")


async def _tokens(turn: Turn, _: str) -> None:
    turn.token_usage = TokenUsage(
        total=30, input=20, output=10, thought=5, cached_read=4, cached_write=2
    )
    await turn.say("This took 30 tokens.")


async def _system(turn: Turn, _: str) -> None:
    prompt = turn.session.system_prompt
    await turn.say("There is none." if prompt is None else f"{prompt.mode}: {prompt.text}")


async def _extension(turn: Turn, rest: str) -> None:
    method, _, text = rest.partition(" ")
    if not method.startswith("_"):
        raise UsageError("Expected a method, which begins with an underscore.")
    try:
        params = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        raise UsageError("Expected an object of JSON.") from None
    await turn.notify_extension(f"{method}/notified", params)
    try:
        answer = await turn.call_extension(method, params)
    except RequestError as error:
        await turn.say(f"The client says {error.code}.")
    else:
        await turn.say(f"The client says `{json.dumps(answer)}`.")


COMMANDS = (
    ScriptCommand(
        "background", "[SECONDS|forever]", "begins work that outlives the turn", _background
    ),
    ScriptCommand(
        "alone", "[SECONDS|forever]", "waits in a tool call that can be cancelled alone", _alone
    ),
    ScriptCommand("pause", "", "makes a tool call that pauses and goes on", _pause),
    ScriptCommand("notice", "[SEVERITY]", "shows a notice: `info`, `warning` or `error`", _notice),
    ScriptCommand("compact", "[fail]", "shows a compaction of the context", _compact),
    ScriptCommand(
        "document", "", "shows plans that are Markdown and a file, and removes one", _document
    ),
    ScriptCommand(
        "subagent", "[TEXT|forever]", "has a subagent say TEXT, or wait for a cancel", _subagent
    ),
    ScriptCommand("tokens", "", "says at the end of the turn what it took", _tokens),
    ScriptCommand("system", "", "says what system prompt the client gave", _system),
    ScriptCommand(
        "extension", "METHOD [JSON]", "calls an extension method of the client", _extension
    ),
)
