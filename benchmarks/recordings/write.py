"""Writes a recording of a million messages and one gigabyte: `write.py FILE COUNT`."""

from __future__ import annotations

import json
import random
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from accord_trace.line_builder import Hop, LineBuilder
from accord_trace.records import Direction

WORDS = ["the", "quick", "brown", "fox", "Jumps", "over", "a", "lazy", "dog", "session", "agent"]
SESSIONS = 20
CHUNKS = 97  # in a turn of 100 messages


def texts() -> list[str]:
    """Return texts of about 750 characters."""
    choose = random.Random(1)
    return [" ".join(choose.choices(WORDS, k=180))[:760] for _ in range(500)]


def messages() -> Any:
    """Yield messages of turns without end."""
    bodies, number = texts(), 0
    while True:
        number += 1
        session = f"session-{number % SESSIONS}"

        def update(**fields: Any) -> tuple[Direction, dict[str, Any]]:
            params = {"sessionId": session, "update": fields}  # noqa: B023  # used at once
            return "to_client", {"method": "session/update", "params": params}

        prompt = [{"type": "text", "text": "Do it"}]
        params = {"sessionId": session, "prompt": prompt}
        yield "to_agent", {"id": number, "method": "session/prompt", "params": params}
        for at in range(CHUNKS):
            text = bodies[(number * CHUNKS + at) % len(bodies)]
            content = {"type": "text", "text": text}
            yield update(sessionUpdate="agent_message_chunk", content=content)
        title = f"Needle {number}"
        yield update(sessionUpdate="tool_call", toolCallId=f"c{number}", title=title)
        failed = {"error": {"code": -32000, "message": "bad"}}
        yield (
            "to_client",
            {"id": number, **({"result": {"stopReason": "end_turn"}} if number % 50 else failed)},
        )


def main(path: Path, count: int) -> None:
    builder = LineBuilder(Hop(), redact=False)
    with path.open("wb") as file:
        file.write(b'{"type":"header","version":1,"t":"2026-05-01T10:00:00Z","argv":["x"]}\n')
        for number, (direction, message) in enumerate(islice(messages(), count)):
            frame = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
            ts = number / 2000
            file.write(builder.repeated(ts, direction, frame) or builder.line(ts, direction, frame))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
