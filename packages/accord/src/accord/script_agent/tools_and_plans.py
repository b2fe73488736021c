"""Commands that show tool calls and plans."""

from __future__ import annotations

import asyncio
from pathlib import Path

from accord import EmbeddedResource, PlanEntry, ResourceLink, ToolCallLocation, Turn
from accord.script_agent.command import ScriptCommand, UsageError
from accord.script_agent.messages import IMAGE

_KINDS = (
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
)


async def _tools(turn: Turn, _: str) -> None:
    for kind in _KINDS:
        raw_input = {"kind": kind}
        async with turn.tool(
            f"A call of kind {kind}", kind=kind, name=f"script_{kind}", raw_input=raw_input
        ) as call:
            await call.add_content(f"The content of {kind}.")
    await _tool_content(turn)
    async with turn.tool("A title to be corrected") as call:
        await call.update(title="A corrected title", kind="search", raw_input={"corrected": True})
    async with turn.tool("The first of two") as first, turn.tool("The second of two") as second:
        await first.add_content("One.")
        await second.add_content("Two.")
    async with turn.tool("A call that fails") as call:
        await call.fail("It failed on request.")
    await turn.say("19 tool calls: 18 completed, 1 failed.")


async def _tool_content(turn: Turn) -> None:
    """Make a tool call with each kind of content."""
    folder = Path(turn.session.cwd, "script")
    locations = [ToolCallLocation(str(folder / "a.py")), ToolCallLocation(str(folder / "b.py"), 3)]
    async with turn.tool("A call with locations", kind="read", locations=locations) as call:
        await call.start()
    request = {"url": "https://example.com/"}
    async with turn.tool("A call with raw output", kind="fetch", raw_input=request) as call:
        await call.set_raw_output({"status": 200, "lines": ["one", "two"]})
    async with turn.tool("A call that streams", kind="execute") as call:
        for index in range(3):
            await call.append_text(f"line {index + 1}\n")
    async with turn.tool("A call with diffs", kind="edit") as call:
        await call.add_diff(str(folder / "added.txt"), None, "new\n")
        await call.add_diff(str(folder / "changed.txt"), "one\ntwo\n", "one\n2\n")
        await call.add_diff(str(folder / "deleted.txt"), "old\n", None)
    async with turn.tool("A call with other content") as call:
        link = ResourceLink("https://example.com/a.txt", "a.txt")
        await call.add_content(link, EmbeddedResource("script:///text", "A resource.\n"), IMAGE)


async def _plan(turn: Turn, _: str) -> None:
    steps = [
        PlanEntry("Look", priority="high"),
        PlanEntry("Think", priority="medium"),
        PlanEntry("Act", priority="low"),
    ]
    plan = await turn.plan(steps)
    for index in range(len(steps)):
        await plan.update(index, status="in_progress")
        await plan.update(index, status="completed")
    await turn.say("The plan is done.")


async def _wait(turn: Turn, rest: str) -> None:
    try:
        seconds = None if rest == "forever" else float(rest or 1)
    except ValueError:
        raise UsageError(f"Expected seconds or `forever`, got `{rest}`.") from None
    async with turn.tool(f"Wait {rest or 1}", raw_input={"seconds": seconds}) as call:
        await call.start()
        if seconds is None:
            await asyncio.Event().wait()
        else:
            await asyncio.sleep(seconds)
    await turn.say("I have waited.")


TOOLS_AND_PLANS = (
    ScriptCommand(
        "tools",
        "",
        "Make tool calls of each kind, with each kind of content and each final status",
        _tools,
        "19 tool calls, [below](#tool-calls); `19 tool calls: 18 completed, 1 failed.`",
    ),
    ScriptCommand(
        "plan",
        "",
        "Show a plan and carry it out",
        _plan,
        "A plan of three steps with the priorities `high`, `medium`, `low`; each step "
        "becomes `in_progress` and then `completed`; `The plan is done.`",
    ),
    ScriptCommand(
        "wait",
        "[SECONDS|forever]",
        "Wait in a tool call (1 second), or until a cancel",
        _wait,
        "A tool call that is in progress for this time (1); `I have waited.` A cancel ends it.",
    ),
)
