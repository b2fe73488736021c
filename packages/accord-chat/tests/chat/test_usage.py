"""The context and the cost of a session, in the last line."""

from __future__ import annotations

from pathlib import Path

from accord import Agent, Turn
from accord.types.session import Cost
from chat.chats import LocalAgent, open_chat


class Spender(Agent):
    """Says what it has used; each prompt is the used tokens, the size and the cost."""

    async def prompt(self, turn: Turn) -> None:
        used, size, *cost = turn.text.split()
        price = Cost(float(cost[0]), cost[1]) if cost else None
        await turn.session.set_context_usage(int(used), int(size), cost=price)


async def test_meter_follows_the_agent(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Spender()), folder=tmp_path) as user:
        await user.send("999 200000")
        await user.sees(" 999/200k 0% · F1 help")
        await user.send("2400 200000 0.021 USD")
        await user.sees(" 2.4k/200k 1% $0.02 · F1 help")
        await user.send("150000 200000 1.5 EUR")
        await user.sees(" 150k/200k 75% 1.50 EUR · F1 help")
