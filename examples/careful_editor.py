"""An agent that edits a file and runs a command if it may, and keeps its sessions.

Started with `agent` it serves stdin and stdout; else it starts itself as an agent, lets it
work in its own directory, and checks the result.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import accord
from accord import Agent, MemoryStore, Turn
from accord.client.permissions import allow


class CarefulEditor(Agent):
    """Sorts the lines of a file."""

    store = MemoryStore()

    async def prompt(self, turn: Turn) -> None:
        path = turn.text
        await turn.set_title(f"Sort {Path(path).name}")
        plan = await turn.plan(["Sort the lines", "Count them"])

        lines = (await turn.files.read(path)).splitlines(keepends=True)
        async with turn.tool(f"Sort {path}") as call:
            if not await call.edit(path, "".join(sorted(lines))):
                await turn.say("I left the file alone.")
                return
        await plan.update(0, status="completed")

        count = f"print(len(open({path!r}).readlines()))"
        ran = await turn.run(sys.executable, "-c", count, timeout_s=30)
        await plan.update(1, status="completed")
        await turn.say(f"Sorted {ran.output.strip() if ran else 'all'} lines.")


async def main(folder: Path) -> None:
    path = folder / "fruit.txt"
    path.write_text("pear\napple\nplum\n")
    command = [sys.executable, __file__, "agent"]
    async with accord.connect(command, permissions=allow("edit", "execute")) as agent:
        session = await agent.new_session(cwd=folder)
        async with session.prompt(str(path)) as turn:
            async for event in turn:
                match event:
                    case accord.ToolCall(title=title, status=status):
                        print(f"[{status}] {title}")
                    case accord.Text(text):
                        print(text)
        assert turn.stop_reason == "end_turn"
        assert turn.text == "Sorted 3 lines."
    assert path.read_text() == "apple\npear\nplum\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["agent"]:
        CarefulEditor().run()
    else:
        with tempfile.TemporaryDirectory() as name:
            asyncio.run(main(Path(name).resolve()))
