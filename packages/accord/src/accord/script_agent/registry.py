"""All commands of the script agent, and how a prompt runs one.

The long commands are here: a complete turn, background work and subagents.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from accord import AvailableCommand, Cost, PlanEntry, RequestError, StartError, TokenUsage, Turn
from accord.agent import ToolCallHandle, WorkCancelled
from accord.script_agent.commands import (
    ASK_USER,
    FILES_AND_TERMINALS,
    MESSAGES,
    SESSION_SETTINGS,
    STOP,
    TOOLS_AND_PLANS,
    ScriptCommand,
    UsageError,
)

# Commands that send every kind of update, or a complete turn as users see it.

SUMMARY = "accord-demo.md"
# A single write, so that it is always shown as one chunk.
_MEASURE = f'import os; os.write(1, b"%d bytes\\n" % os.path.getsize("{SUMMARY}"))'


async def _updates(turn: Turn, _: str) -> None:
    session = turn.session
    await turn.think("A thought.")
    await turn.say("A message.")
    plan = await turn.plan(["One step"])
    await plan.update(0, status="completed")
    async with turn.tool("A tool call", kind="read", raw_input={"n": 1}) as call:
        await call.add_content("Some content.")
        await call.set_raw_output({"n": 2})
    commands = session.commands
    await turn.set_commands([AvailableCommand("first", "does the first thing")])
    await turn.set_commands(commands)
    mode = session.mode or "ask"
    await session.set_option("mode", "auto" if mode != "auto" else "ask")
    await session.set_option("mode", mode)
    await turn.set_title("A title")
    await turn.set_context_usage(1_000, 200_000, cost=Cost(0.01))
    await turn.say("One of each.")


async def _full(turn: Turn, rest: str) -> None:
    source = rest or "README.md"
    await turn.set_title(f"Summarise {source}")
    await turn.think(f"First I have to read {source}. Then I can write the summary.")
    steps = [f"Read {source}", f"Write {SUMMARY}", "Check it", "Clean up"]
    plan = await turn.plan(_entries(steps, 0))
    text = await _read(turn, source)
    if text is None:
        await turn.say(f"I cannot read {source}.")
        return
    await plan.replace(_entries(steps, 1))
    summary = _summary(source, text)
    if not await _write(turn, summary):
        await turn.say("Nothing has changed.")
        return
    try:
        await plan.replace(_entries(steps, 2))
        size = await _measure(turn)
        await plan.replace(_entries(steps, 3))
    finally:
        _remove(turn)  # however the turn ends
    async with turn.tool(f"Delete {SUMMARY}", kind="delete", locations=[_path(turn)]) as call:
        await call.add_diff(_path(turn), summary, None)
    await plan.replace(_entries(steps, 4))
    await turn.set_context_usage(2_400, 200_000, cost=Cost(0.02))
    await turn.say(
        f"**{source}** has {len(text.splitlines())} lines and {len(text.split())} words. "
        f"The summary had {size}; I have deleted it again."
    )


def _entries(steps: list[str], at: int) -> list[PlanEntry]:
    """Return the plan with this step in progress."""
    statuses = ["completed"] * at + ["in_progress"] + ["pending"] * len(steps)
    return [PlanEntry(step, status) for step, status in zip(steps, statuses, strict=False)]


async def _read(turn: Turn, source: str) -> str | None:
    absolute = str(Path(turn.session.cwd, source))
    async with turn.tool(
        f"Read {source}", kind="read", name="read_file", locations=[absolute]
    ) as call:
        try:
            text = await turn.files.read(source)
        except (OSError, ValueError, RequestError):
            await call.fail("It could not be read.")
            return None
        await call.add_content("\n".join(text.splitlines()[:3]))
        return text


async def _write(turn: Turn, summary: str) -> bool:
    """Write the summary, unless the file exists or the user rejects it; return True if written."""
    async with turn.tool(
        f"Write {SUMMARY}", kind="edit", name="write_file", locations=[_path(turn)]
    ) as call:
        try:
            await turn.files.read(SUMMARY)
        except (OSError, RequestError):
            pass
        else:
            await call.fail("The file already exists.")
            return False
        try:
            if await call.edit(SUMMARY, summary):
                return True
            await call.fail("Permission denied.")
        except (OSError, RequestError):
            await call.fail("It could not be written.")
        return False


async def _measure(turn: Turn) -> str:
    """Run a command that prints the size of the summary; return its output."""
    argv = [sys.executable, "-c", _MEASURE]
    async with turn.tool(
        f"Measure {SUMMARY}", kind="execute", name="run_command", raw_input={"command": argv}
    ) as call:
        try:
            result = await turn.terminals.run(*argv)
        except (StartError, RequestError):
            await call.fail("It could not be run.")
            return "some bytes"
        return result.output.strip()


def _summary(source: str, text: str) -> str:
    lines = text.splitlines() or [""]
    return (
        f"# {source} in numbers\n"
        "\n"
        f"- {len(lines)} lines\n"
        f"- {len(text.split())} words\n"
        f"- It begins with: {lines[0]}\n"
    )


def _remove(turn: Turn) -> None:
    Path(_path(turn)).unlink(missing_ok=True)


def _path(turn: Turn) -> str:
    return str(Path(turn.session.cwd, SUMMARY))


FULL_TURN = (
    ScriptCommand(
        "updates",
        "",
        "Send one update of each kind",
        _updates,
        "A thought; a message; a plan of one step, which is then completed; a tool call with "
        "raw input, content and raw output; commands, twice; the mode (in version 1) and "
        "options, changed and changed back; a title; usage; `One of each.`",
    ),
    ScriptCommand(
        "full",
        "[FILE]",
        f"Summarise FILE (README.md) in {SUMMARY}, and clean up",
        _full,
        "A complete turn as users see it, [below](#a-complete-turn).",
    ),
)


# Commands for background work, subagents, and output outside the conversation.


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


async def _listen(turn: Turn, _: str) -> None:
    await turn.say("I am listening.")
    async for message in turn.steering():
        if message.text.strip() == "stop":
            await turn.say("I have stopped.")
            return
        turn.start_new_message()
        await turn.say(f"I heard: {message.text}")


BACKGROUND = (
    ScriptCommand(
        "listen",
        "",
        "Repeat what is said while the turn runs, until `stop`",
        _listen,
        "`I am listening.`, then `I heard: TEXT` for each message of the request "
        "`_session/steering`, and `I have stopped.` for the message `stop`.",
    ),
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


async def _help(turn: Turn, _: str) -> None:
    await turn.say(help_text())


COMMANDS = (
    ScriptCommand("help", "", "List the commands", _help, "The list of commands, as Markdown."),
    *MESSAGES,
    *FULL_TURN,
    *TOOLS_AND_PLANS,
    *ASK_USER,
    *FILES_AND_TERMINALS,
    *BACKGROUND,
    *SESSION_SETTINGS,
    *STOP,
)
_BY_NAME = {command.name: command for command in COMMANDS}


async def run_prompt(turn: Turn) -> str | None:
    """Run the command in a prompt; return the stop reason, if the command defines one."""
    words = next((part for part in turn.content if isinstance(part, str)), "").split(None, 1)
    name = words[0].removeprefix("/") if words else "help"
    command = _BY_NAME.get(name)
    if command is None:
        await turn.say(f"Unknown command `{name}`.\n\n{help_text()}")
        return None
    try:
        return await command.run(turn, words[1].strip() if len(words) > 1 else "")
    except UsageError as error:
        await turn.say(f"{error}\n\nUsage: `{command.usage}`")
        return None


def help_text() -> str:
    """Return the list of all commands, as Markdown."""
    lines = [f"- `{command.usage}`: {command.summary}" for command in COMMANDS]
    return "\n".join(["Each prompt is one of these commands:", "", *lines])
