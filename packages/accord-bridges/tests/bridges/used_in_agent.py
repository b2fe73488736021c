"""An agent for the tests of agents in frameworks: each line of a prompt is a command.

`call NAME JSON` calls a tool of the client, several in a line joined by ` & ` at once; `edit TITLE`
asks for permission, and `ask TITLE` says nothing then; `count` says how many
prompts the session has had; `die` ends the process. Without any command, it says an object in JSON.
"""

import asyncio
import json
import os

from accord import Agent, MemoryStore, SqliteStore, Turn
from accord.agent import MessageUpdate


class Commands(Agent):
    store = SqliteStore(os.environ["SESSIONS"]) if "SESSIONS" in os.environ else MemoryStore()
    mcp_transports = frozenset({"acp", "http"})

    async def prompt(self, turn: Turn) -> None:
        commands = {"call", "edit", "ask", "count", "show", "say", "wait", "die"}
        if commands.isdisjoint(line.partition(" ")[0] for line in turn.text.splitlines()):
            await turn.say('{"name": "Rome"}')
        for line in turn.text.splitlines():
            word, _, rest = line.partition(" ")
            match word:
                case "call":
                    each = (one.removeprefix("call ") for one in rest.split(" & "))
                    said = await asyncio.gather(*(self.call(turn, one) for one in each))
                    await turn.say(" and ".join(said))
                case "edit":
                    async with turn.tool(rest, kind="edit", raw_input={"file": rest}) as call:
                        did = "did" if await call.permission() else "skipped"
                        await turn.say(f"{did} {rest}. ")
                case "ask":
                    async with turn.tool(rest, kind="edit", raw_input={"file": rest}) as call:
                        await call.permission()
                case "count":
                    of_user = [
                        one
                        for one in await turn.history()
                        if isinstance(one, MessageUpdate) and one.role == "user"
                    ]
                    await turn.say(f"That is prompt {len(of_user) + 1}.")
                case "show":
                    await turn.say(turn.text)
                case "say":
                    for piece in rest.split(" "):
                        await turn.say(piece + " ")
                case "wait":
                    await turn.say("waiting")
                    await asyncio.Event().wait()
                case "die":
                    os._exit(3)
                case _:
                    pass

    async def call(self, turn: Turn, what: str) -> str:
        name, _, arguments = what.partition(" ")
        servers = await turn.session.connect_mcp()
        async with turn.tool(f"mcp__caller__{name}", name=f"mcp__caller__{name}"):
            result = await servers["caller"].call(name, json.loads(arguments))
        return ("error: " if result.is_error else "") + result.content[0].text


if __name__ == "__main__":
    Commands().run()
