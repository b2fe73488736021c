"""Commands that send every kind of update, or a complete turn as users see it."""

from __future__ import annotations

import sys
from pathlib import Path

from accord import AvailableCommand, Cost, PlanEntry, RequestError, StartError, Turn
from accord.script_agent.command import ScriptCommand

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
