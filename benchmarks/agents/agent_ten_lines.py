"""The first agent that one writes: what it costs to start."""

from accord import Agent, Turn


class Hello(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"You said: {turn.text}")


Hello().run()
