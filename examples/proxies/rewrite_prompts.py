"""A proxy that tells every agent the team's terms, and gives it a tool to look them up."""

import accord
from accord import Proxy, ProxyTurn

TERMS = {"lane": "an order of messages", "hop": "one connection of a chain"}


class Glossary(Proxy):
    """Adds the terms that a prompt uses."""

    async def prompt(self, turn: ProxyTurn, forward):
        return await self.explain(turn, forward)

    async def steer(self, turn: ProxyTurn, forward):
        return await self.explain(turn, forward)

    async def explain(self, turn: ProxyTurn, forward):
        used = [f"- {term}: {TERMS[term]}" for term in TERMS if term in turn.text]
        if used and turn.command is None:  # an agent finds a command only at the beginning
            turn.prepend("\n".join(["Terms of this team:", *used, "", ""]))
        return await forward()

    @accord.tool
    async def lookup(self, term: str) -> str:
        """Return what the team means by a term."""
        return TERMS.get(term, "unknown")


if __name__ == "__main__":
    Glossary().run()
