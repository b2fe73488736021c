"""The smallest agent: it serves both versions on stdin and stdout."""

from accord import Agent, Turn


class Greeter(Agent):
    """Greets the user."""

    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"Hello! You wrote: {turn.text}")


if __name__ == "__main__":
    Greeter().run()
