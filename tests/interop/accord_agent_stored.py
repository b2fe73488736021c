"""Agent whose sessions all connections share: it counts, so that a replay is long."""

import accord

COUNT = 300
STORE = accord.MemoryStore()


class Counter(accord.Agent):
    """Says the numbers up to `COUNT`, then the end."""

    info = accord.Implementation("accord", "1")
    store = STORE

    async def prompt(self, turn: accord.Turn) -> None:
        for said in (*range(COUNT), "the end"):
            await turn.say(f"{turn.text}: {said}")
            turn.start_new_message()
