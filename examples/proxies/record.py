"""A proxy that writes the prompts and the agent's answers of all sessions to a file."""

import json
import sys
from collections import defaultdict
from pathlib import Path

from accord import Proxy, ProxyTurn, Text
from accord.client.events import Event


class Record(Proxy):
    """Appends one line of JSON for each turn."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts: defaultdict[str, list[str]] = defaultdict(list)

    async def prompt(self, turn: ProxyTurn, forward):
        texts = self.texts[turn.session_id]
        texts.clear()
        reason = None
        try:
            reason = await forward()
            return reason
        finally:
            line = {"prompt": turn.text, "answer": "".join(texts), "ended": reason}
            with self.path.open("a", encoding="utf-8") as file:
                print(json.dumps(line), file=file)
            del self.texts[turn.session_id]

    async def steer(self, turn: ProxyTurn, forward):
        self.texts[turn.session_id].append(f"\n> {turn.text}\n")
        return await forward()

    def session_update(self, session_id: str, event: Event) -> Event:
        if isinstance(event, Text) and session_id in self.texts:
            self.texts[session_id].append(event.text)
        return event


if __name__ == "__main__":
    Record(Path(sys.argv[1])).run()
