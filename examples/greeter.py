"""The smallest agent: it speaks both versions on stdin and stdout."""

from accord import Agent, Turn


class Greeter(Agent):
    """Says hello to whoever prompts it."""

    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"Hello! You wrote: {turn.text}")


if __name__ == "__main__":
    Greeter().run()
