"""The agent of the benchmarks on `accord.Agent`: what users write, for both versions."""

from __future__ import annotations

import json
import time
from typing import Any

from workload import CHUNKS_PER_TURN, DIFF_BYTES, Barrier, chunk_text, source_text, spread

from accord import Agent, ToolCallLocation, Turn

NEW_TEXT = source_text(DIFF_BYTES).upper()
together = Barrier()
PATH = f"/x/{DIFF_BYTES}"


class Bench(Agent):
    """Does what the first text of a prompt says."""

    async def prompt(self, turn: Turn) -> None:
        first = turn.content[0]
        assert isinstance(first, str)
        command = json.loads(first)
        await getattr(self, f"do_{command['do']}")(turn, command)

    async def do_nothing(self, turn: Turn, command: dict[str, Any]) -> None:
        pass

    async def do_stream(self, turn: Turn, command: dict[str, Any]) -> None:
        if "together" in command:
            await together.wait(command["together"])
        for number in range(command["n"]):
            await turn.say(chunk_text(number))

    async def do_read(self, turn: Turn, command: dict[str, Any]) -> None:
        times: list[float] = []
        path = f"/x/{command['size']}"
        for _ in range(command["n"]):
            start = time.perf_counter_ns()
            await turn.files.read(path)
            times.append(time.perf_counter_ns() - start)
        await turn.say("RESULT " + json.dumps(spread(times)))

    async def do_turn(self, turn: Turn, command: dict[str, Any]) -> None:
        """Exchange the messages of `agent_accord.py`, and show the terminal in the tool call."""
        await turn.plan([f"Step {i}: do the thing and check it" for i in range(5)])
        async with turn.tool(
            "Editing src/main.py",
            kind="edit",
            locations=[ToolCallLocation("/w/src/main.py", line=10)],
            raw_input={"path": "/w/src/main.py", "mode": "patch"},
        ) as call:
            assert await call.permission()
            await turn.files.write(PATH, NEW_TEXT)  # reads the old text, and shows a diff
            ran = await turn.terminals.run("pytest", "-q", "tests", cwd="/")
            assert ran.ok
            for number in range(CHUNKS_PER_TURN):
                await turn.say(chunk_text(number))
            await call.add_content("done")


if __name__ == "__main__":
    Bench().run()
