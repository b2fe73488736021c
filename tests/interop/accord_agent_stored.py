"""Agent whose sessions all connections share: it counts, for a replay that is longer than one write."""

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
