"""Give an agent functions of this program as tools, here an agent in another process."""

import asyncio
import sys

import accord
from accord import Agent, Turn


class Planner(Agent):
    """Plans a trip with the tools of its client, without a model."""

    mcp_transports = frozenset({"acp"})

    async def prompt(self, turn: Turn) -> None:
        tools = (await turn.session.connect_mcp())["tools"]
        await turn.say(f"I can use: {', '.join(tool.name for tool in tools.tools)}. ")
        distance = await tools.call("distance_km", {"city": turn.text})
        booking = await tools.call("book", {"city": turn.text})
        for result in (distance, booking):
            await turn.say(f"{result.content[0].text} ")


class Desk:
    """Keeps the bookings of this program."""

    def __init__(self) -> None:
        self.booked: list[str] = []

    @accord.tool
    def book(self, city: str) -> str:
        """Book a train."""
        self.booked.append(city)
        return f"Booked a train to {city}."


async def distance_km(city: str) -> str:
    """Return how far away a city is."""
    return f"{city} is {len(city) * 100} km away."


async def main() -> None:
    desk = Desk()
    async with accord.connect([sys.executable, __file__, "agent"]) as agent:
        session = await agent.new_session(".", tools=[distance_km, desk])
        async with session.prompt("Bern") as turn:
            await turn.wait()
    print(turn.text)
    assert "I can use: distance_km, book." in turn.text
    assert "Bern is 400 km away." in turn.text
    assert desk.booked == ["Bern"]


if __name__ == "__main__":
    if sys.argv[1:] == ["agent"]:
        Planner().run()
    else:
        asyncio.run(main())
