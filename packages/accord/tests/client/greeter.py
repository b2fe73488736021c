"""A small agent as a program."""

from accord import Agent, Turn


class Greeter(Agent):
    """Greets, requests permission, or waits to be cancelled."""

    async def prompt(self, turn: Turn) -> None:
        match turn.text:
            case "wait":
                await turn.say("waiting")
                import asyncio

                await asyncio.Event().wait()
            case "work":
                async with turn.tool("Edit", kind="edit") as call:
                    allowed = await call.permission()
                await turn.say("done" if allowed else "refused")
            case text:
                await turn.say(f"Hello! You wrote: {text}")


if __name__ == "__main__":
    Greeter().run()
