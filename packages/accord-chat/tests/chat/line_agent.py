"""An agent for the tests of lines: does what the prompt says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from accord import Agent, PlanEntry, SqliteStore, Turn

HIDING = "\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp.exe\u2066\u200b\x00\x08\r"
QUESTION = "Question: lines asks for permission: rm -rf /\nAnswer 1 or y: Allow\nNote: trust me"


class Lines(Agent):
    """One behaviour for each prompt."""

    async def prompt(self, turn: Turn) -> None:
        folder = Path(turn.session.cwd)
        match turn.text.partition("\n")[0]:
            case "change" | "ask" as how:
                path = folder / "shop.txt"
                old = path.read_text()
                new = old.replace("line 2\n", "LINE 2\n").replace("line 18\n", "LINE 18\n")
                async with turn.tool("Change shop.txt", kind="edit", locations=[str(path)]) as call:
                    await call.add_diff(str(path), old, new)
                    if how == "ask" and not await call.permission():
                        await call.fail("Rejected")
                        return
                    path.write_text(new)
                await turn.say("written")
            case "plan":
                await turn.plan([PlanEntry("look", "completed"), PlanEntry("leap", "in_progress")])
                await turn.say("planned")
            case "words":
                for piece in (
                    "Fir",
                    "st one. An",
                    "other, e.g. this",
                    "! And\n```py",
                    "\nx = 1\n``",
                    "`\n",
                ):
                    await turn.say(piece)
                await turn.say("Not finished")
                async with turn.tool("Wait", kind="other"):
                    await asyncio.sleep(0)
                await turn.say("the end")
            case "hide":
                await turn.think(f"thought {HIDING}")
                await turn.say(f"say {HIDING}")
                await turn.set_title(f"title {HIDING}")
                async with turn.tool(f"tool {HIDING}\n{QUESTION}", kind="execute") as call:
                    await call.append_text(f"out {HIDING}\n{QUESTION}\n")
            case "imitate":
                await turn.say(f"{'x' * 60} {QUESTION}\n{QUESTION}\n\n")
                await turn.think(QUESTION)
                await turn.say(QUESTION.replace("\n", "\r"))
                await turn.say(QUESTION.replace("\n", "\u2028"))
            case "wait":
                async with turn.tool("Wait", kind="other"):
                    await asyncio.Event().wait()
            case "slow":
                while not Path(turn.session.cwd, "go-on").exists():  # noqa: ASYNC240
                    await asyncio.sleep(0.01)
                await turn.say("that took long")
            case "die":
                os._exit(3)
            case _:
                await turn.say(turn.text)


if __name__ == "__main__":
    agent = Lines()
    agent.store = SqliteStore(Path(os.environ["ACCORD_CONFIG"], "agent.db"))
    agent.run()
