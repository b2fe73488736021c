"""An agent that repeats what it hears in a tool call, until it hears `stop`."""

from __future__ import annotations

from accord import Agent, Turn


class Listening(Agent):
    """Repeats other prompts than `listen`."""

    steering = True

    async def prompt(self, turn: Turn) -> None:
        if turn.text != "listen":
            await turn.say(f"Prompt {turn.text}.")
            return
        async with turn.tool("Listening"):
            async for message in turn.steering():
                await turn.say(f"Heard {message.text}.\n")
                if message.text == "stop":
                    return


if __name__ == "__main__":
    Listening().run()
